// Batches and losses of power: each is there as a whole or not at all in the durable modes, if it
// is a large one, and if a Sync has met it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/store.h"
#include "test/power/machine.h"
#include "test/power/uniform_batch.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

class BatchLossTest : public PowerCasesTest {
 protected:
  // Boots what a loss has left, and expects one version under all keys that lies between these.
  void ExpectUniform(const std::string& state, uint64_t per_bucket, uint64_t least, uint64_t most) {
    auto machine = Boot(state);
    machine->Open(FourBuckets(SyncMode::kNone));
    ASSERT_NE(machine->store(), nullptr);
    const Versions seen = RangeOf(machine->store(), "", "");
    if (seen.empty()) {
      EXPECT_EQ(least, 0u);
      return;
    }
    EXPECT_EQ(seen.size(), per_bucket * kBuckets);
    for (const auto& [key, version] : seen) ASSERT_EQ(version, seen[0].second) << key;
    EXPECT_GE(seen[0].second, least);
    EXPECT_LE(seen[0].second, most);
  }

  // Recovers a state, and ends that at some of its changes: by a kill, which keeps all, or by a
  // loss of power. Does so again with the states of these ends, and then expects the version
  // everywhere.
  void ExpectUniformAfterAll(const std::string& state, const std::string& boot_id,
                             uint64_t per_bucket, uint64_t version) {
    struct Ended {
      std::string state;
      std::string boot_id;
      int end_count = 0;
    };
    constexpr int kEndsInARow = 3;
    std::vector<Ended> waiting = {{state, boot_id}};
    uint64_t recovery_count = 0;
    while (!waiting.empty() && !HasFailure()) {
      const Ended one = std::move(waiting.back());
      waiting.pop_back();
      auto machine = std::make_unique<Machine>(one.state, one.boot_id);
      // Threads of the recovery have events as well.
      std::mutex mutex;
      bool takes = one.end_count < kEndsInARow;
      const double chance = one.end_count > 0 ? 0.005 : kSanitized ? 0.1 : 0.5;
      machine->disk()->on_event = [&](const std::string&) {
        const std::lock_guard lock(mutex);
        if (!takes || !Chance(&random_, chance)) return;
        const bool is_killed = Chance(&random_, 0.6);
        waiting.push_back(
            {is_killed ? StateOf(machine.get(), CrashBias::KeepAll()) : AnyStateOf(machine.get()),
             is_killed ? one.boot_id : NewBootId(&states_, &random_), one.end_count + 1});
      };
      machine->Open(FourBuckets(SyncMode::kNone));
      ASSERT_NE(machine->store(), nullptr);
      {
        const std::lock_guard lock(mutex);
        takes = false;
      }
      ++recovery_count;
      const Versions seen = RangeOf(machine->store(), "", "");
      EXPECT_EQ(seen.size(), per_bucket * kBuckets);
      for (const auto& [key, found] : seen) EXPECT_EQ(found, version) << key;
      machine.reset();
      Drop(one.state);
    }
    EXPECT_GT(recovery_count, Sized(20, 4));
  }

  // A Sync begins behind each of the changes that a batch's thread makes to staging files. Power is
  // lost when that waits for the batch or is done, and at the end.
  void SyncBetweenAnyTwoChanges(const Options& options, uint64_t per_bucket) {
    const std::thread::id writer = std::this_thread::get_id();
    uint64_t change_count = 0;
    for (uint64_t begins_at = 1; begins_at == 1 || begins_at <= change_count; ++begins_at) {
      auto machine = NewMachine();
      machine->Open(options);
      ASSERT_NE(machine->store(), nullptr);
      ASSERT_TRUE(machine->store()->Write(Uniform(per_bucket, 1)).ok());
      machine->Sync();
      std::unique_ptr<WatchedThread> sync;
      std::string state;
      change_count = 0;
      machine->disk()->on_event = [&](const std::string& event) {
        const bool is_change = event.starts_with("after pwrite staging_") ||
                               event.starts_with("after fdatasync staging_");
        if (std::this_thread::get_id() != writer || !is_change) return;
        if (++change_count != begins_at) return;
        sync = std::make_unique<WatchedThread>([&machine] { machine->Sync(); });
        (void)sync->AwaitSleep();
        state = StateOf(machine.get(), CrashBias::KeepNone());
      };
      ASSERT_TRUE(machine->store()->Write(Uniform(per_bucket, 2)).ok());
      ASSERT_NE(sync, nullptr);
      sync->Join();
      const std::string at_end = StateOf(machine.get(), CrashBias::KeepNone());
      machine.reset();
      ExpectUniform(state, per_bucket, 1, 2);
      ExpectUniform(at_end, per_bucket, 1, 2);
      Drop(state);
      Drop(at_end);
    }
    EXPECT_GE(change_count, uint64_t{kBuckets}) << "each bucket has a count of its own";
  }

  void LoseInTheMiddle(SyncMode mode, uint64_t per_bucket, uint64_t batch_count, uint64_t gap) {
    struct Taken {
      std::string state;
      // Acknowledged before it was taken, and after that.
      uint64_t least;
      uint64_t most;
    };
    std::vector<Taken> taken;
    auto machine = NewMachine();
    machine->Open(FourBuckets(mode));
    ASSERT_NE(machine->store(), nullptr);
    std::atomic<uint64_t> acknowledged{0};
    // Threads of the store have events as well.
    std::mutex mutex;
    uint64_t next = 0;  // under the mutex, like `taken` and the random numbers
    machine->disk()->on_event = [&](const std::string&) {
      const std::lock_guard lock(mutex);
      if (next-- > 0) return;
      next = Below(&random_, gap);
      CrashBias bias;
      bias.tear = 1;
      bias.mapped_last = 0.5;
      const uint64_t least = acknowledged;
      std::string state =
          Chance(&random_, 0.3) ? StateOf(machine.get(), bias) : AnyStateOf(machine.get());
      taken.push_back({std::move(state), least, acknowledged + 1});
    };
    for (uint64_t version = 1; version <= batch_count; ++version) {
      ASSERT_TRUE(machine->store()->Write(Uniform(per_bucket, version)).ok());
      acknowledged = version;
    }
    {
      const std::lock_guard lock(mutex);
      next = ~uint64_t{0};
    }
    machine->Close();
    machine.reset();
    EXPECT_GT(taken.size(), 10u);
    for (const Taken& one : taken) {
      ExpectUniform(one.state, per_bucket, one.least, one.most);
      Drop(one.state);
    }
  }
};

TEST_F(BatchLossTest, GroupCommitsKeepThemWhole) {
  LoseInTheMiddle(SyncMode::kGroup, 3, Sized(60, 20), 5);
}

TEST_F(BatchLossTest, DurableWritesKeepThemWhole) {
  LoseInTheMiddle(SyncMode::kEveryWrite, 5, Sized(60, 20), 5);
}

// Chains of several batches of the journal, whose halves are used again.
TEST_F(BatchLossTest, ChainsKeepThemWhole) {
  LoseInTheMiddle(SyncMode::kGroup, 7, Sized(80, 30), 16);
  LoseInTheMiddle(SyncMode::kGroup, 30, Sized(40, 20), 40);
}

// In every mode: they are durable when they are acknowledged.
TEST_F(BatchLossTest, LargeOnesAreWhole) {
  LoseInTheMiddle(SyncMode::kGroup, 150, Sized(6, 2), 15);
  LoseInTheMiddle(SyncMode::kNone, 150, Sized(6, 2), 15);
}

// The process is killed when its batch is durable in the journal and staged nowhere. The recoveries
// after that are killed as well, or lose power.
TEST_F(BatchLossTest, RecoveriesThatEndAnywhereKeepThemWhole) {
  for (const SyncMode mode : {SyncMode::kGroup, SyncMode::kEveryWrite}) {
    auto machine = NewMachine();
    machine->Open(FourBuckets(mode));
    ASSERT_NE(machine->store(), nullptr);
    ASSERT_TRUE(machine->store()->Write(Uniform(3, 1)).ok());
    std::string killed;
    machine->disk()->on_event = [&](const std::string& event) {
      if (event != "after fdatasync staging_journal" || !killed.empty()) return;
      killed = StateOf(machine.get(), CrashBias::KeepAll());
    };
    ASSERT_TRUE(machine->store()->Write(Uniform(3, 2)).ok());
    const std::string boot_id = machine->boot_id_path();
    machine.reset();
    ASSERT_FALSE(killed.empty());
    ExpectUniformAfterAll(killed, boot_id, 3, 2);
  }
}

// The store is killed in the middle of one, and then takes a few records. What the batch has left
// in the logs stands right behind these.
TEST_F(BatchLossTest, ALargeOneThatWasKilledDoesNotComeBack) {
  constexpr uint64_t kPerBucket = 150;
  constexpr uint64_t kNewer = 10;
  auto machine = NewMachine();
  machine->Open(FourBuckets(SyncMode::kNone));
  ASSERT_NE(machine->store(), nullptr);
  ASSERT_TRUE(machine->store()->Write(Uniform(1, 1)).ok());
  std::string killed;
  std::mutex mutex;
  machine->disk()->on_event = [&](const std::string& event) {
    const std::lock_guard lock(mutex);
    if (event != "before pwrite staging_batches") return;
    if (killed.empty()) killed = StateOf(machine.get(), CrashBias::KeepAll());
  };
  ASSERT_TRUE(machine->store()->Write(Uniform(kPerBucket, 2)).ok());
  const std::string boot_id = machine->boot_id_path();
  machine.reset();
  ASSERT_FALSE(killed.empty());
  machine = std::make_unique<Machine>(killed, boot_id);
  machine->Open(FourBuckets(SyncMode::kNone));
  ASSERT_NE(machine->store(), nullptr);
  for (uint64_t n = 0; n < kNewer; ++n) {
    ASSERT_TRUE(machine->store()->Write(KeyOf(n), ValueOf(n, 3)).ok());
  }
  std::vector<std::string> states;
  for (uint64_t i = 0; i < Sized(20, 5); ++i) states.push_back(AnyStateOf(machine.get()));
  machine->Sync();
  states.push_back(StateOf(machine.get(), CrashBias::KeepNone()));
  states.push_back(StateOf(machine.get(), CrashBias::KeepAll()));
  machine.reset();
  for (const std::string& state : states) {
    auto booted = Boot(state);
    booted->Open(FourBuckets(SyncMode::kNone));
    ASSERT_NE(booted->store(), nullptr);
    for (const auto& [key, version] : RangeOf(booted->store(), "", "")) {
      EXPECT_NE(version, 2) << key;
    }
    booted.reset();
    Drop(state);
  }
}

// Other threads write single records meanwhile, so batches share the journal's turns.
TEST_F(BatchLossTest, BesideSingleWrites) {
  auto machine = NewMachine();
  machine->Open(FourBuckets(SyncMode::kGroup));
  ASSERT_NE(machine->store(), nullptr);
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<bool> stop{false};
  std::thread singles([&] {
    for (uint64_t i = 0; !stop; ++i) {
      const uint64_t key = (i % kBuckets) << 62 | (1000 + i % 50);
      ASSERT_TRUE(machine->store()->Write(KeyOf(key), ValueOf(key, i + 1)).ok());
    }
  });
  std::vector<std::pair<std::string, uint64_t>> states;
  for (uint64_t version = 1; version <= 40; ++version) {
    if (version % 4 == 0) {
      const uint64_t before = acknowledged;
      states.emplace_back(AnyStateOf(machine.get()), before);
    }
    ASSERT_TRUE(machine->store()->Write(Uniform(3, version)).ok());
    acknowledged = version;
  }
  stop = true;
  singles.join();
  machine.reset();
  for (const auto& [state, least] : states) {
    auto booted = Boot(state);
    booted->Open(FourBuckets(SyncMode::kNone));
    ASSERT_NE(booted->store(), nullptr);
    Versions of_batch = RangeOf(booted->store(), "", "");
    std::erase_if(of_batch, [](const auto& one) { return (one.first & 0xffff) >= 1000; });
    if (least > 0) {
      EXPECT_EQ(of_batch.size(), 3 * kBuckets);
    }
    for (const auto& [key, version] : of_batch) {
      EXPECT_EQ(version, of_batch[0].second) << key;
      EXPECT_GE(version, least);
    }
    booted.reset();
    Drop(state);
  }
}

// Without a durable mode a Sync promises what it has met: all of a batch or nothing.
// It begins between any two of the batch's changes, and takes its counts before or behind them all.
TEST_F(BatchLossTest, ASyncMeetsAllOfABatchOrNothing) {
  Options options = FourBuckets(SyncMode::kNone);
  // Counts that are written one by one can be told apart.
  options.staging_mode = StagingMode::kWritten;
  SyncBetweenAnyTwoChanges(options, 1);
}

// The changes of a large one, but for the records, which other threads write.
TEST_F(BatchLossTest, ASyncMeetsAllOfALargeBatchOrNothing) {
  SyncBetweenAnyTwoChanges(FourBuckets(SyncMode::kNone), 61);
}

}  // namespace
}  // namespace engine_race::test
