// Batches that a kill ends while they are staged, and a later loss of power. The next records get
// the numbers that the batch had. The disk may have the counts of these, and the entries and values
// of the batch.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "test/power/machine.h"
#include "test/power/uniform_batch.h"

namespace engine_race::test {
namespace {

Options Written() {
  Options options = FourBuckets(SyncMode::kNone);
  options.staging_mode = StagingMode::kWritten;
  return options;
}

class KilledBatchTest : public PowerCasesTest {
 protected:
  // What the kernel has after a kill in the middle of a batch of version 2.
  void KillABatch(uint64_t before_count) {
    auto machine = NewMachine();
    machine->Open(Written());
    ASSERT_NE(machine->store(), nullptr);
    ASSERT_TRUE(machine->store()->Write(Uniform(1, 9)).ok());
    machine->WriteKeys(100, 100 + before_count);
    killed_.clear();
    machine->disk()->on_event = [&](const std::string& event) {
      if (event != "before pwrite staging_batches" || !killed_.empty()) return;
      killed_ = StateOf(machine.get(), CrashBias::KeepAll());
    };
    ASSERT_TRUE(machine->store()->Write(Uniform(3, 2)).ok());
    boot_id_ = machine->boot_id_path();
    machine.reset();
    ASSERT_FALSE(killed_.empty());
  }

  // Writes to what the last kill has left in `dir`, after a Compact if `compacts`. Returns what a
  // loss of power then leaves, if the disk has the counts, and of what is staged just what was
  // flushed: now, or before to `on_disk`.
  std::string WriteAndLose(const std::string& dir, const std::string& on_disk,
                           bool compacts = false) {
    Machine machine(dir, boot_id_);
    bool flushes_keys = false;
    machine.disk()->on_event = [&](const std::string& event) {
      flushes_keys = flushes_keys || event == "after fdatasync staging_keys";
    };
    machine.Open(Written());
    EXPECT_TRUE(!compacts || machine.store()->Compact().ok());
    for (uint64_t n = 200; n < 205; ++n) {
      EXPECT_TRUE(machine.store()->Write(KeyOf(n), ValueOf(n, 3)).ok());
    }
    std::string state = StateOf(&machine, CrashBias::KeepAll());
    const std::string flushed = StateOf(&machine, CrashBias::KeepNone());
    const auto copy = [&](const std::string& from, const char* name) {
      std::filesystem::copy_file(from + "/" + name, state + "/" + name,
                                 std::filesystem::copy_options::overwrite_existing);
    };
    copy(flushes_keys ? flushed : on_disk, "staging_keys");
    copy(on_disk, "staging_values");
    Drop(flushed);
    return state;
  }

  void ExpectNoneOfIt(const std::string& state) {
    auto booted = Boot(state);
    booted->Open(Written());
    ASSERT_NE(booted->store(), nullptr);
    for (const auto& [key, version] : RangeOf(booted->store(), "", ""))
      EXPECT_NE(version, 2) << key;
  }

  std::string CopyOf(const std::string& state) {
    std::string to = states_.NewDirectory();
    std::filesystem::copy(state, to, std::filesystem::copy_options::recursive);
    return to;
  }

  std::string killed_;
  std::string boot_id_;
};

TEST_F(KilledBatchTest, DoesNotComeBack) {
  for (const uint64_t before_count : {0, 1, 3}) {
    ASSERT_NO_FATAL_FAILURE(KillABatch(before_count));
    const std::string on_disk = CopyOf(killed_);
    const std::string state = WriteAndLose(killed_, on_disk);
    ExpectNoneOfIt(state);
    for (const std::string& each : {killed_, on_disk, state}) Drop(each);
  }
}

// Compact gives back the staging of buckets whose records are all synced.
TEST_F(KilledBatchTest, DoesNotComeBackWhereStagingWasGivenBack) {
  ASSERT_NO_FATAL_FAILURE(KillABatch(/*before_count=*/1));
  const std::string on_disk = CopyOf(killed_);
  const std::string state = WriteAndLose(killed_, on_disk, /*compacts=*/true);
  ExpectNoneOfIt(state);
}

TEST_F(KilledBatchTest, OneFlushClearsTheEntriesOfAllBuckets) {
  ASSERT_NO_FATAL_FAILURE(KillABatch(/*before_count=*/1));
  Machine machine(killed_, boot_id_);
  int flush_count = 0;
  machine.disk()->on_event = [&](const std::string& event) {
    if (event == "before fdatasync staging_keys") ++flush_count;
  };
  machine.Open(Written());
  ASSERT_TRUE(machine.store()->Write(Uniform(1, 3)).ok());
  EXPECT_EQ(flush_count, 1);
}

// Also if the next opening is killed while it clears the entries of the batch.
TEST_F(KilledBatchTest, DoesNotComeBackAfterTwoKills) {
  ASSERT_NO_FATAL_FAILURE(KillABatch(/*before_count=*/1));
  int step_count = 0;
  for (int killed_at = 0; killed_at <= step_count; ++killed_at) {
    SCOPED_TRACE(killed_at);
    const std::string dir = CopyOf(killed_);
    std::string on_disk;
    std::string in_cache;
    auto machine = std::make_unique<Machine>(dir, boot_id_);
    step_count = 0;
    machine->disk()->on_event = [&](const std::string& event) {
      if (!event.ends_with(" staging_keys") || step_count++ != killed_at) return;
      on_disk = StateOf(machine.get(), CrashBias::KeepNone());
      in_cache = StateOf(machine.get(), CrashBias::KeepAll());
    };
    machine->Open(Written());
    ASSERT_NE(machine->store(), nullptr);
    ASSERT_TRUE(machine->store()->Write(KeyOf(200), ValueOf(200, 3)).ok());
    machine.reset();
    if (!in_cache.empty()) {
      const std::string state = WriteAndLose(in_cache, on_disk);
      ExpectNoneOfIt(state);
      for (const std::string& each : {on_disk, in_cache, state}) Drop(each);
    }
    Drop(dir);
  }
  EXPECT_GT(step_count, 4) << "the entries are cleared and flushed";
}

}  // namespace
}  // namespace engine_race::test
