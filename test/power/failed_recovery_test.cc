// Flushes that fail in a recovery. The kernel then takes the pages for clean, so the next flush
// succeeds without them.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/log/log_test_util.h"
#include "test/power/machine.h"

namespace engine_race::test {
namespace {

class FailedRecoveryTest : public PowerCasesTest {
 protected:
  // Opens the store with the first flush of a file failing, and then once more.
  static void OpenTwice(Machine* machine, const std::string& file) {
    bool has_failed = false;
    machine->disk()->fails_flush = [&](const std::string& name) {
      return name == file && !std::exchange(has_failed, true);
    };
    std::unique_ptr<Store> store;
    static_cast<void>(Store::Open(AsRun(OneBucket()), machine->dir(), &store));
    EXPECT_TRUE(has_failed);
    store.reset();
    machine->disk()->fails_flush = nullptr;
    machine->Open(OneBucket());
  }
  static std::string RowsIn(const std::string& dir) {
    std::ifstream file(dir + "/" + format::kRowsName, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

// Record 3 is lost, so records 4 and 5 are cut off. Their staged entries are erased, and the first
// flush of that fails.
TEST_F(FailedRecoveryTest, StagedEntriesThatWereCutOffNeverComeBack) {
  const std::string value = ValueOf(9, 9);
  for (int round = 0; round < 24 && !HasFailure(); ++round) {
    auto machine = NewMachine();
    machine->Open(OneBucket());
    machine->WriteKeys(1, 4);
    machine->Sync();
    for (uint64_t key = 4; key < 7; ++key) {
      ASSERT_TRUE(machine->store()->Write(KeyOf(key), value).ok());
    }
    const std::string first = StateOf(machine.get(), CrashBias::KeepAll());
    machine.reset();
    const std::string zeros(kValueBytes, '\0');
    for (const char* name : {format::kStagingValuesName, "value_00"}) {
      Overwrite(first + "/" + name, zeros.data(), zeros.size(), 3 * kValueBytes);
    }

    machine = Boot(first);
    OpenTwice(machine.get(), format::kStagingKeysName);
    PrefixOf(machine.get(), 3, 3);
    machine->WriteKeys(4, 5);
    machine->Sync();
    // Another key with the value that record 4 had.
    ASSERT_TRUE(machine->store()->Write(KeyOf(7), value).ok());
    CrashBias bias;
    bias.mapped_last = bias.mapped_synced = 0.5;
    const std::string second = StateOf(machine.get(), bias);
    machine.reset();
    machine = Boot(second);
    machine->Open(OneBucket());
    for (const uint64_t key : {5, 6}) {
      std::string found;
      EXPECT_EQ(machine->store()->Read(KeyOf(key), &found).code(), Code::kNotFound)
          << "key " << key << " in round " << round;
    }
    machine.reset();
    Drop(first);
    Drop(second);
  }
}

// A recovery writes to slots that the rows call free.
TEST_F(FailedRecoveryTest, RowsAreDurableBeforeTheirSlotsAreUsed) {
  auto machine = NewMachine();
  machine->Open(OneBucket());
  for (int i = 0; i < 3; ++i) machine->WriteKeys(1, 301);
  ASSERT_TRUE(machine->store()->Compact().ok());
  machine->WriteKeys(1, 301);
  machine->disk()->fails_flush = [](const std::string& name) { return name == format::kRowsName; };
  ASSERT_EQ(machine->store()->Compact().code(), Code::kIOError);
  machine->Close();
  machine->disk()->fails_flush = nullptr;
  std::string durable;
  std::string written;
  const std::string flush = std::string("after fdatasync ") + format::kRowsName;
  machine->disk()->on_event = [&](const std::string& event) {
    if (event != flush || !durable.empty()) return;
    const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
    durable = RowsIn(state);
    written = RowsIn(machine->dir());
    Drop(state);
  };
  machine->Open(OneBucket());
  machine->disk()->on_event = nullptr;
  EXPECT_FALSE(durable.empty());
  EXPECT_TRUE(durable == written);
}

// Logs without direct I/O. The recovery finds each record there, in the page cache alone.
TEST_F(FailedRecoveryTest, RecordsInThePageCacheAreWrittenAgain) {
  for (const char* file : {"value_00", "key_00"}) {
    auto machine = NewMachine();
    machine->disk()->refuses_direct = true;
    machine->Open(OneBucket());
    machine->WriteKeys(1, 301);
    machine->disk()->fails_flush = [&](const std::string& name) { return name == file; };
    EXPECT_EQ(machine->store()->Sync().code(), Code::kIOError);
    machine->Close();
    machine->disk()->fails_flush = nullptr;
    machine->Open(OneBucket());
    PrefixOf(machine.get(), 300, 300);
    machine->Sync();
    const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
    machine.reset();
    ExpectPrefix(state, 300, 300);
  }
}

// Likewise records that were moved.
TEST_F(FailedRecoveryTest, MovedRecordsInThePageCacheAreWrittenAgain) {
  auto machine = NewMachine();
  machine->disk()->refuses_direct = true;
  machine->Open(OneBucket());
  // Of each row some records stay live.
  machine->WriteKeys(1, 1001);
  for (uint64_t key = 1; key < 1001; ++key) {
    if (key % 8 == 0) continue;
    ASSERT_TRUE(machine->store()->Write(KeyOf(key), ValueOf(key, 2000)).ok());
  }
  machine->Sync();
  machine->disk()->fails_flush = [](const std::string& name) { return name == "value_00"; };
  ASSERT_EQ(machine->store()->Compact().code(), Code::kIOError);
  EXPECT_GT(machine->store()->Stats().reclaim_moved_bytes, 0U);
  machine->Close();
  machine->disk()->fails_flush = nullptr;
  machine->Open(OneBucket());
  const Versions wanted = RangeOf(machine->store(), "", "");
  EXPECT_EQ(wanted.size(), 1000U);
  const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
  machine.reset();
  machine = Boot(state);
  machine->Open(OneBucket());
  EXPECT_EQ(RangeOf(machine->store(), "", ""), wanted);
}

}  // namespace
}  // namespace engine_race::test
