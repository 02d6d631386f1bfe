// Page caches that are lost while neither the boot id nor the mount tells: a file system whose
// mounts the kernel does not name, or a copy of the device put in its place.
//
// What was durable must survive even then, no read may give wrong bytes, and nothing old may be
// written over what is synced. What was not durable may be damaged until the store notices.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/power/machine.h"

namespace engine_race::test {
namespace {

class UnnoticedLossTest : public PowerCasesTest {
 protected:
  // A state after a loss of power, and how many keys, from 1 on, were durable then.
  struct Loss {
    std::string dir;
    uint64_t durable_count = 0;
  };

  // Keys [1, durable_count] read as written, or as damaged unless `strict`: a lost record behind
  // them could have been their successor. Others are not there, as written or damaged.
  static void ExpectDurable(Store* store, const Loss& loss, uint64_t key_count, bool strict) {
    ASSERT_NE(store, nullptr);
    for (uint64_t key = 1; key <= key_count; ++key) {
      std::string value;
      uint64_t version = 0;
      const Status status = store->Read(KeyOf(key), &value);
      if (status.ok()) {
        EXPECT_TRUE(ParseValue(key, value, &version) && version == key) << "key " << key;
        continue;
      }
      const bool durable = key <= loss.durable_count;
      EXPECT_TRUE(status.code() == Code::kCorruption ? !durable || !strict
                                                     : status.code() == Code::kNotFound && !durable)
          << "key " << key << " of " << loss.durable_count << ": " << status.ToString();
    }
  }

  // Opens the state as if nothing had happened, writes and syncs as far as the store takes it, and
  // looks once more after a restart of the machine.
  void Judge(const Machine& former, const Loss& loss, const Options& options, uint64_t key_count) {
    const bool durable_mode = options.sync_mode != SyncMode::kNone;
    auto machine = GoOn(loss.dir, former, /*remounted=*/false);
    machine->Open(options);
    ASSERT_NO_FATAL_FAILURE(
        ExpectDurable(machine->store(), loss, key_count, /*strict=*/durable_mode));
    Status status;
    // A Sync takes over groups that were full, and lost, before this opening.
    const bool syncs = Chance(&random_, 0.3);
    bool strict = durable_mode || !syncs;
    if (syncs) status = machine->store()->Sync();
    const uint64_t new_end = 5000 + Below(&random_, 300);
    for (uint64_t key = 5000; key < new_end && status.ok(); ++key) {
      status = machine->store()->Write(KeyOf(key), ValueOf(key, key));
    }
    SCOPED_TRACE("syncs " + std::to_string(syncs) + ", then " + status.ToString());
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kCorruption) << status.ToString();
      ++noticed_count_;
      // Reopening is all that it takes.
      strict = true;
      machine->Close();
      machine->Open(options);
      ASSERT_NO_FATAL_FAILURE(ExpectDurable(machine->store(), loss, key_count, strict));
      EXPECT_TRUE(machine->store()->Write(KeyOf(6000), ValueOf(6000, 6000)).ok());
    }
    machine.reset();
    machine = Boot(loss.dir);
    machine->Open(options);
    ExpectDurable(machine->store(), loss, key_count, strict);
    machine.reset();
    Drop(loss.dir);
  }

  uint64_t noticed_count_ = 0;
};

TEST_F(UnnoticedLossTest, WhatWasSyncedSurvives) {
  for (int round = 0; round < 120 && !HasFailure(); ++round) {
    auto machine = NewMachine();
    machine->Open(OneBucket());
    const uint64_t synced = Below(&random_, 20) + (Chance(&random_, 0.3) ? 250 : 0);
    machine->WriteKeys(1, synced + 1);
    machine->Sync();
    const uint64_t key_count = synced + Below(&random_, 30) + (Chance(&random_, 0.3) ? 250 : 0);
    machine->disk()->Look();
    machine->WriteKeys(synced + 1, key_count + 1);
    machine->disk()->Look();
    const Loss loss{AnyStateOf(machine.get()), synced};
    const std::string former_dir = machine->dir();
    machine->Close();
    Judge(*machine, loss, OneBucket(), key_count);
    machine.reset();
    Drop(former_dir);
  }
  EXPECT_GT(noticed_count_, 5);
}

class UnnoticedLossModeTest : public UnnoticedLossTest,
                              public testing::WithParamInterface<SyncMode> {};

TEST_P(UnnoticedLossModeTest, WhatWasAcknowledgedSurvives) {
  Options options = OneBucket();
  options.sync_mode = GetParam();
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    auto machine = NewMachine();
    machine->Open(options);
    const uint64_t key_count = 1 + Below(&random_, 40) + (Chance(&random_, 0.3) ? 250 : 0);
    std::atomic<uint64_t> acknowledged{0};
    // The checkpoint's thread has events as well.
    std::mutex mutex;
    bool is_over = false;  // here and below: under the mutex
    uint64_t next_event = Below(&random_, 2 * key_count);
    std::vector<Loss> losses;
    machine->disk()->on_event = [&](const std::string&) {
      const std::lock_guard lock(mutex);
      if (is_over || next_event-- > 0) return;
      next_event = key_count + Below(&random_, 2 * key_count);
      if (losses.size() < 4) losses.push_back({AnyStateOf(machine.get()), acknowledged});
    };
    for (uint64_t key = 1; key <= key_count; ++key) {
      machine->disk()->Look();
      machine->WriteKeys(key, key + 1);
      acknowledged = key;
    }
    {
      const std::lock_guard lock(mutex);
      losses.push_back({AnyStateOf(machine.get()), acknowledged});
      is_over = true;
    }
    const std::string former_dir = machine->dir();
    machine->Close();
    machine->disk()->on_event = nullptr;
    for (const Loss& loss : losses) Judge(*machine, loss, options, key_count);
    machine.reset();
    Drop(former_dir);
  }
}

INSTANTIATE_TEST_SUITE_P(DurableModes, UnnoticedLossModeTest,
                         testing::Values(SyncMode::kEveryWrite, SyncMode::kGroup),
                         [](const auto& mode) {
                           return mode.param == SyncMode::kGroup ? "Group" : "EveryWrite";
                         });

// The machine goes on, the file system was mounted again.
TEST_F(PowerCasesTest, AnotherMountIsAsGoodAsARestart) {
  auto machine = NewMachine();
  machine->Open(OneBucket());
  machine->WriteKeys(1, 11);
  machine->Sync();
  machine->WriteKeys(11, 15);
  CrashBias nothing_but_counts = CrashBias::KeepNone();
  nothing_but_counts.mapped_last = 0.5;
  nothing_but_counts.mapped_synced = 0.5;
  std::vector<std::string> states;
  for (int i = 0; i < 20; ++i) states.push_back(StateOf(machine.get(), nothing_but_counts));
  machine->Close();
  for (const std::string& state : states) {
    const auto next = GoOn(state, *machine, /*remounted=*/true);
    next->Open(OneBucket());
    const uint64_t kept = PrefixOf(next.get(), 10, 14);
    ASSERT_NE(next->store(), nullptr);
    EXPECT_EQ(next->store()->Stats().synced_record_count, kept);
    next->WriteKeys(kept + 1, kept + 9);
    PrefixOf(next.get(), kept + 8, kept + 8);
  }
}

}  // namespace
}  // namespace engine_race::test
