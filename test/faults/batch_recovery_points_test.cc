// A process dies when its batch over all buckets is committed and not counted. The recoveries after
// it are killed at every call, or meet a fault there: the batch is whole in the end.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/store.h"
#include "test/faults/dying_child.h"
#include "test/faults/fault_plan.h"
#include "test/faults/memory_dir.h"
#include "test/faults/scenario.h"
#include "test/faults/sparse_copy.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

// Kills the process after the n-th call on a file of this name, once it is armed.
class DeathAfter : public SystemCallHook {
 public:
  DeathAfter(CallKind kind, std::string name, int nth)
      : kind_(kind), name_(std::move(name)), left_(nth) {}
  void Arm() { armed_.store(true); }

  long OnCall(SystemCall* call) override {
    const long result = call->Proceed();
    if (!armed_.load() || call->kind != kind_ || !PathOf(*call).ends_with(name_)) return result;
    if (--left_ > 0) return result;
    ::kill(::getpid(), SIGKILL);
    while (true) ::pause();
  }

 private:
  const CallKind kind_;
  const std::string name_;
  std::atomic<int> left_;
  std::atomic<bool> armed_{false};
};

struct BatchCase {
  const char* name;
  SyncMode sync_mode;
  StagingMode staging;
  // The first call after which the batch is committed: the n-th of this kind on this file.
  CallKind kind;
  const char* file;
  int nth;
  // Whether the machine is started anew after the first process.
  bool restarts;
};

constexpr int kBuckets = 4;

class BatchRecoveryPointsTest : public ::testing::TestWithParam<BatchCase> {
 protected:
  BatchRecoveryPointsTest()
      : random_(SweepSeed()), options_(ScenarioOptions(GetParam().sync_mode)) {
    options_.staging_mode = GetParam().staging;
    // Groups of one record write more words before the batch is committed.
    options_.value_bytes = std::min(SweptValueBytes(), kValueBytes);
    std::ofstream(boot_id_) << "3f1c0a52-9d0e-4d6e-8f5b-0b6f1c2d3e4f\n";
    // A full group of values and a part of one in each bucket, and then two records of the batch.
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      for (uint64_t i = 0; i < 5; ++i) AddStep(bucket, i, 1);
    }
    single_count_ = steps_.size();
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      for (uint64_t i = 4; i < 6; ++i) AddStep(bucket, i, 2);
    }
  }

  // The process that dies in its batch. Its store is left in died_.
  void DieInBatch() {
    DeathAfter death(GetParam().kind, GetParam().file, GetParam().nth);
    const End end = InChildUnder(&death, [&] {
      std::unique_ptr<Store> store;
      if (!Store::Open(AsRun(options_), died_, &store).ok()) return false;
      WriteBatch batch(options_.value_bytes);
      for (size_t i = 0; i < steps_.size(); ++i) {
        const Step& step = steps_[i];
        const std::string value = ValueOf(step.key, step.version, options_.value_bytes);
        const Status written = i < single_count_ ? store->Write(KeyOf(step.key), value)
                                                 : batch.Put(KeyOf(step.key), value);
        if (!written.ok()) return false;
      }
      death.Arm();
      return store->Write(batch).ok();
    });
    ASSERT_EQ(end, End::kKilled);
  }
  void CopyDied() {
    std::filesystem::remove_all(copy_);
    CopySparse(died_, copy_);
  }
  End DieInRecovery(uint64_t nth, DeathMoment moment) {
    DeathPlan death(copy_, nth, moment);
    BootIdHook boot(boot_id_, &death);
    return InChildUnder(HookOf(&boot, &death), [&] {
      std::unique_ptr<Store> store;
      return Store::Open(AsRun(options_), copy_, &store).ok();
    });
  }
  void ExpectWhole() {
    BootIdHook boot(boot_id_);
    SystemCallHook* const hook = HookOf(&boot, nullptr);
    const std::unique_ptr<ScopedHook> scope(hook == nullptr ? nullptr : new ScopedHook(hook));
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options_), copy_, &store);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    std::string problem;
    const Contents found = ReadContents(store.get(), steps_, &problem);
    EXPECT_EQ(problem, "");
    EXPECT_EQ(ToString(found), ToString(ContentsAfter(steps_, steps_.size())));
  }
  static SystemCallHook* HookOf(SystemCallHook* restarted, SystemCallHook* same) {
    return GetParam().restarts ? restarted : same;
  }

  std::mt19937_64 random_;
  Options options_;
  std::vector<Step> steps_;
  size_t single_count_ = 0;
  MemoryDir dir_;
  const std::string died_ = dir_.Join("died");
  const std::string copy_ = dir_.Join("copy");
  const std::string boot_id_ = dir_.Join("boot_id");

 private:
  void AddStep(int bucket, uint64_t i, uint64_t version) {
    steps_.push_back({Step::Kind::kWrite, (static_cast<uint64_t>(bucket) << 62) + i, version});
  }
};

TEST_P(BatchRecoveryPointsTest, RecoveriesMayBeKilledAtEveryCall) {
  ASSERT_NO_FATAL_FAILURE(DieInBatch());
  CopyDied();
  ExpectWhole();
  const SweepSteps sweep(dir_.stride() * Sized(2, 29), 8);
  bool finished = false;
  uint64_t nth = sweep.first;
  for (; !finished && !HasFailure(); nth += sweep.stride) {
    for (const DeathMoment moment :
         {DeathMoment::kBefore, DeathMoment::kTorn, DeathMoment::kAfter}) {
      SCOPED_TRACE("killed in call " + std::to_string(nth) + ", moment " +
                   std::to_string(static_cast<int>(moment)));
      CopyDied();
      const End end = DieInRecovery(nth, moment);
      ASSERT_NE(end, End::kFailed);
      finished = end == End::kFinished;
      // The next recovery is killed, too.
      const uint64_t again = 1 + random_() % nth;
      SCOPED_TRACE("and then in call " + std::to_string(again));
      ASSERT_NE(DieInRecovery(again, moment), End::kFailed);
      ExpectWhole();
    }
  }
  EXPECT_GT(nth, 50u) << "a recovery makes hardly a call";
}

TEST_P(BatchRecoveryPointsTest, CallsOfARecoveryMayFail) {
  ASSERT_NO_FATAL_FAILURE(DieInBatch());
  for (const Fault fault : {Fault::kDiskFull, Fault::kIoError}) {
    for (const Repeat repeat : {Repeat::kOnce, Repeat::kFromThenOn}) {
      const SweepSteps sweep(dir_.stride() * Sized(2, 29), 8);
      bool fired = true;
      uint64_t nth = sweep.first;
      for (; fired && !HasFailure(); nth += sweep.stride) {
        CopyDied();
        FaultPlan plan(copy_, fault, nth, repeat);
        {
          BootIdHook boot(boot_id_, &plan);
          const ScopedHook scope(HookOf(&boot, &plan));
          plan.Arm();
          std::unique_ptr<Store> store;
          const Status opened = Store::Open(AsRun(options_), copy_, &store);
          fired = plan.fired();
          EXPECT_TRUE(opened.ok() || fired) << opened.ToString();
          plan.Disarm();
        }
        SCOPED_TRACE(plan.ToString());
        ExpectWhole();
      }
      EXPECT_GT(nth, 3u) << "a recovery makes hardly a call";
    }
  }
}

constexpr CallKind kFlush = CallKind::kFdatasync;
constexpr CallKind kWrite = CallKind::kPwrite;
// The count of each bucket is written as it is before the batch is committed, and then moved.
constexpr int kFirstMovedCount = kBuckets + 1;
INSTANTIATE_TEST_SUITE_P(
    Modes, BatchRecoveryPointsTest,
    ::testing::Values(BatchCase{"Group", SyncMode::kGroup, StagingMode::kAuto, kFlush,
                                "staging_journal", 1, false},
                      BatchCase{"GroupRestarted", SyncMode::kGroup, StagingMode::kAuto, kFlush,
                                "staging_journal", 1, true},
                      BatchCase{"EveryWriteWrittenStaging", SyncMode::kEveryWrite,
                                StagingMode::kWritten, kFlush, "staging_journal", 1, false},
                      BatchCase{"Committed", SyncMode::kNone, StagingMode::kWritten, kWrite,
                                "staging_counts", kFirstMovedCount, false},
                      BatchCase{"CommittedRestarted", SyncMode::kNone, StagingMode::kWritten,
                                kWrite, "staging_counts", kFirstMovedCount, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace engine_race::test
