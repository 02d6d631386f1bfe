// Losses of power at chosen moments, and flushes that fail.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/power/machine.h"

namespace engine_race::test {
namespace {

TEST_F(PowerCasesTest, SyncedRecordsOutliveALossOfEverythingElse) {
  auto machine = NewMachine();
  machine->Open(OneBucket());
  machine->WriteKeys(1, 11);
  machine->Sync();
  machine->WriteKeys(11, 15);
  const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
  machine.reset();
  ExpectPrefix(state, 10, 14);
}

TEST_F(PowerCasesTest, TornRewriteOfASyncedPageLosesNothing) {
  // Both Syncs write the same page of key entries and the same group of values.
  auto machine = NewMachine();
  machine->Open(OneBucket());
  machine->WriteKeys(1, 6);
  machine->Sync();
  machine->WriteKeys(6, 8);
  std::vector<std::string> states;
  machine->disk()->on_event = [&](const std::string& event) {
    CrashBias bias;
    bias.tear = 1;
    for (int i = 0; i < 8; ++i) {
      bias.mapped_last = i % 2;
      bias.mapped_synced = i / 2 % 2;
      states.push_back(StateOf(machine.get(), bias));
    }
    EXPECT_FALSE(event.empty());
  };
  machine->Sync();
  machine.reset();
  EXPECT_GT(states.size(), 16);
  for (const std::string& state : states) {
    ExpectPrefix(state, 5, 7);
    Drop(state);
  }
}

TEST_F(PowerCasesTest, ATailThatWasCutNeverComesBack) {
  uint64_t cut_count = 0;
  for (int round = 0; round < 60; ++round) {
    auto machine = NewMachine();
    machine->Open(OneBucket());
    machine->WriteKeys(1, 4);
    machine->Sync();
    // Old records in the key log, beyond what the first loss leaves.
    machine->WriteKeys(4, 4 + 250 + Below(&random_, 300));
    const std::string first = AnyStateOf(machine.get());
    machine.reset();
    machine = Boot(first);
    machine->Open(OneBucket());
    const uint64_t kept = PrefixOf(machine.get(), 3, 553);
    if (kept < 250) ++cut_count;
    // One new record under an old key; those after it must stay away.
    ASSERT_NE(machine->store(), nullptr);
    ASSERT_TRUE(machine->store()->Write(KeyOf(kept + 1), ValueOf(kept + 1, 9999)).ok());
    if (Chance(&random_, 0.5)) machine->Sync();
    const std::string second = AnyStateOf(machine.get());
    machine.reset();
    machine = Boot(second);
    machine->Open(OneBucket());
    ASSERT_NE(machine->store(), nullptr);
    const Versions seen = RangeOf(machine->store(), "", "");
    EXPECT_GE(seen.size(), kept);
    ASSERT_LE(seen.size(), kept + 1);
    if (seen.size() > kept) {
      EXPECT_EQ(seen.back().second, 9999);
    }
    machine.reset();
    Drop(first);
    Drop(second);
  }
  EXPECT_GT(cut_count, 5);
}

TEST_F(PowerCasesTest, CreationInterruptedAnywhereIsMadeAnew) {
  std::vector<std::string> states;
  auto machine = NewMachine();
  uint64_t event_count = 0;
  machine->disk()->on_event = [&](const std::string&) {
    if (event_count++ % Sized(1, 3) != 0) return;
    CrashBias all = CrashBias::KeepAll();
    all.allocate_zeros = true;
    states.push_back(StateOf(machine.get(), all));
    states.push_back(StateOf(machine.get(), CrashBias::KeepNone()));
    states.push_back(AnyStateOf(machine.get()));
  };
  Options options = OneBucket();
  options.sync_mode = SyncMode::kGroup;
  machine->Open(options);
  machine.reset();
  EXPECT_GT(event_count, 60);
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& state = states[i];
    // A journal each time would make this long.
    options.sync_mode = i % 8 == 0 ? SyncMode::kGroup : SyncMode::kNone;
    machine = Boot(state);
    machine->Open(options);
    ASSERT_NE(machine->store(), nullptr);
    EXPECT_EQ(RangeOf(machine->store(), "", "").size(), 0);
    machine->WriteKeys(1, 6);
    if (options.sync_mode == SyncMode::kNone) machine->Sync();
    const std::string next = StateOf(machine.get(), CrashBias::KeepNone());
    machine.reset();
    ExpectPrefix(next, 5, 5);
    Drop(state);
    Drop(next);
  }
}

TEST_F(PowerCasesTest, AJournalHalfThatIsUsedAgainHasForgottenItsPast) {
  // 4 MiB hold a few hundred single writes: both halves are used several times.
  constexpr uint64_t kWriteCount = Sized(1500, 900);
  Options options = OneBucket();
  options.sync_mode = SyncMode::kEveryWrite;
  auto machine = NewMachine();
  machine->Open(options);
  std::vector<std::pair<std::string, uint64_t>> states;
  uint64_t acknowledged = 0;
  uint64_t next_event = 200;
  machine->disk()->on_event = [&](const std::string& event) {
    // A checkpoint takes so long that the other half is full before it ends.
    if (event == "before fdatasync value_00") {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return;
    }
    if (event != "before fdatasync staging_journal" || next_event-- > 0) return;
    next_event = Below(&random_, 100);
    states.emplace_back(AnyStateOf(machine.get()), acknowledged);
  };
  for (uint64_t key = 1; key <= kWriteCount; ++key) {
    machine->WriteKeys(key, key + 1);
    acknowledged = key;
  }
  EXPECT_GE(machine->store()->Stats().durable_write_count, kWriteCount);
  machine.reset();
  EXPECT_GT(states.size(), 5);
  for (const auto& [state, count] : states) {
    ExpectPrefix(state, count, count + 1);
    Drop(state);
  }
}

TEST_F(PowerCasesTest, ATornBatchOfTheJournalIsForgottenAsAWhole) {
  // Records of one bucket share a batch: behind a lost one others may lie intact.
  Options options = OneBucket();
  options.sync_mode = SyncMode::kGroup;
  auto machine = NewMachine();
  machine->Open(options);
  std::vector<std::string> states;
  machine->disk()->on_event = [&](const std::string& event) {
    if (event != "before fdatasync staging_journal") return;
    CrashBias bias;
    bias.tear = 1;
    bias.mapped_last = 0;
    bias.mapped_synced = 1;
    for (int i = 0; i < 4; ++i) states.push_back(StateOf(machine.get(), bias));
    // The other writers come together in the next batch.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  RunThreads(8, [&](uint32_t thread) {
    for (uint64_t i = 0; i < 6; ++i) {
      const uint64_t key = thread * 100 + i;
      ASSERT_TRUE(machine->store()->Write(KeyOf(key), ValueOf(key, key + 1)).ok());
    }
  });
  machine.reset();
  EXPECT_GT(states.size(), 20);
  for (const std::string& state : states) {
    machine = Boot(state);
    machine->Open(OneBucket());
    Versions expected = RangeOf(machine->store(), "", "");
    expected.emplace_back(10000, 1);
    ASSERT_TRUE(machine->store()->Write(KeyOf(10000), ValueOf(10000, 1)).ok());
    machine->Sync();
    const std::string next = StateOf(machine.get(), CrashBias::KeepNone());
    machine.reset();
    machine = Boot(next);
    machine->Open(OneBucket());
    EXPECT_EQ(RangeOf(machine->store(), "", ""), expected);
    machine.reset();
    Drop(state);
    Drop(next);
  }
}

TEST_F(PowerCasesTest, AFlushThatFailsInRecoveryLeavesItToTheNextOpening) {
  for (uint64_t n = 0; n < 20; ++n) {
    auto machine = NewMachine();
    machine->Open(OneBucket());
    machine->WriteKeys(1, 4);
    machine->Sync();
    machine->WriteKeys(4, 40);
    const std::string first = AnyStateOf(machine.get());
    machine.reset();
    machine = Boot(first);
    uint64_t flushes = 0;
    machine->disk()->fails_flush = [&](const std::string&) { return flushes++ == n; };
    std::unique_ptr<Store> store;
    const Status status = Store::Open(AsRun(OneBucket()), first, &store);
    const bool failed = flushes > n;
    EXPECT_EQ(status.ok(), !failed || store != nullptr) << status.ToString();
    store.reset();
    machine->disk()->fails_flush = nullptr;
    machine->Open(OneBucket());
    const uint64_t kept = PrefixOf(machine.get(), 3, 39);
    ASSERT_NE(machine->store(), nullptr);
    ASSERT_TRUE(machine->store()->Write(KeyOf(kept + 1), ValueOf(kept + 1, 9999)).ok());
    machine->Sync();
    const std::string second = AnyStateOf(machine.get());
    machine.reset();
    machine = Boot(second);
    machine->Open(OneBucket());
    const Versions seen = RangeOf(machine->store(), "", "");
    ASSERT_EQ(seen.size(), kept + 1) << "flush " << n;
    EXPECT_EQ(seen.back().second, 9999);
    machine.reset();
    Drop(first);
    Drop(second);
    if (!failed) {
      EXPECT_GE(n, 4);
      return;
    }
  }
}

TEST_F(PowerCasesTest, WithoutABootIdEveryOpeningVerifies) {
  auto machine = std::make_unique<Machine>(states_.NewDirectory(), states_.NewPath());
  machine->Open(OneBucket());
  machine->WriteKeys(1, 9);
  machine->Sync();
  machine->WriteKeys(9, 12);
  machine->Close();
  machine->Open(OneBucket());
  // Nothing was lost, so nothing is cut.
  PrefixOf(machine.get(), 11, 11);
  machine->WriteKeys(12, 20);
  const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
  machine.reset();
  machine = std::make_unique<Machine>(state, states_.NewPath());
  machine->Open(OneBucket());
  PrefixOf(machine.get(), 11, 19);
}

TEST_F(PowerCasesTest, SyncOnCloseLeavesNothingToLose) {
  Options options = OneBucket();
  options.sync_on_close = true;
  auto machine = NewMachine();
  machine->Open(options);
  machine->WriteKeys(1, 8);
  machine->Close();
  const std::string state = StateOf(machine.get(), CrashBias::KeepNone());
  machine.reset();
  ExpectPrefix(state, 7, 7);
}

// The n-th flush of files from a certain write on fails, for every n there is.
class FailedFlushTest : public PowerCasesTest, public testing::WithParamInterface<SyncMode> {
 protected:
  // False when there are not that many flushes.
  bool FailNth(uint64_t n) {
    Options options = OneBucket();
    options.sync_mode = GetParam();
    auto machine = NewMachine();
    machine->Open(options);
    machine->WriteKeys(1, 6);
    uint64_t flushes = 0;
    std::string failed;
    machine->disk()->fails_flush = [&](const std::string& name) {
      if (flushes++ != n) return false;
      failed = name;
      return true;
    };
    Status status;
    uint64_t acknowledged = 5;
    for (; status.ok() && acknowledged < 9; ++acknowledged) {
      status = machine->store()->Write(KeyOf(acknowledged + 1),
                                       ValueOf(acknowledged + 1, acknowledged + 1));
      if (!status.ok()) break;
    }
    if (status.ok()) status = machine->store()->Sync();
    if (failed.empty()) return false;
    SCOPED_TRACE("flush " + std::to_string(n) + " failed, of " + failed);
    EXPECT_EQ(status.code(), Code::kIOError) << status.ToString();
    EXPECT_EQ(machine->store()->Write(KeyOf(100), ValueOf(100, 100)).code(), Code::kIOError);
    EXPECT_EQ(machine->store()->Sync().code(), Code::kIOError);
    PrefixOf(machine.get(), acknowledged, acknowledged + 1);
    const std::string lost = AnyStateOf(machine.get());

    // On the same boot everything acknowledged is there, and writing goes on.
    machine->Close();
    machine->disk()->fails_flush = nullptr;
    machine->Open(options);
    const uint64_t found = PrefixOf(machine.get(), acknowledged, acknowledged + 1);
    machine->WriteKeys(found + 1, found + 4);
    machine->Sync();
    const std::string next = StateOf(machine.get(), CrashBias::KeepNone());
    machine.reset();
    ExpectPrefix(next, found + 3, found + 3);
    // And had power gone right after the failure, what was durable by then would be.
    ExpectPrefix(lost, GetParam() == SyncMode::kNone ? 0 : acknowledged, acknowledged + 1);
    Drop(lost);
    Drop(next);
    return true;
  }
};

TEST_P(FailedFlushTest, EndsWritingUntilReopenedAndLosesNothing) {
  uint64_t n = 0;
  while (FailNth(n) && !HasFailure()) ++n;
  EXPECT_GE(n, 3);
}

std::string ModeName(const testing::TestParamInfo<SyncMode>& info) {
  switch (info.param) {
    case SyncMode::kNone:
      return "None";
    case SyncMode::kEveryWrite:
      return "EveryWrite";
    case SyncMode::kGroup:
      return "Group";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Modes, FailedFlushTest,
                         testing::Values(SyncMode::kNone, SyncMode::kEveryWrite, SyncMode::kGroup),
                         ModeName);

}  // namespace
}  // namespace engine_race::test
