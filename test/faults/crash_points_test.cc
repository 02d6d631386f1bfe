// Every system call is a place to die: a child that runs a small scenario is killed at its n-th
// call, before, half-way through or after it, for every n; the recovery that follows is killed at
// its m-th; and what is opened then must hold every acknowledged write.
//
// Children are forked from a process that has no store open. They report what was acknowledged
// through shared memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <random>
#include <string>
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

constexpr DeathMoment kMoments[] = {DeathMoment::kBefore, DeathMoment::kTorn, DeathMoment::kAfter};

const char* NameOf(DeathMoment moment) {
  switch (moment) {
    case DeathMoment::kBefore:
      return "before";
    case DeathMoment::kTorn:
      return "half-way through";
    case DeathMoment::kAfter:
      return "after";
  }
  return "";
}

// How far a child has come, in steps; in memory that it shares with its parent.
struct LifeProgress {
  std::atomic<uint64_t> started_count{0};
  std::atomic<uint64_t> answered_count{0};
  // Steps before the last Sync that was answered; in the modes that sync, before the last write.
  std::atomic<uint64_t> synced_watermark{0};
  // The call that the child died at.
  DeathPlan::Report died_at{CallKind::kPread};
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(::mmap(nullptr, sizeof(LifeProgress), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    Reset();
  }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() { ::munmap(memory_, sizeof(LifeProgress)); }

  void Reset() { new (memory_) LifeProgress; }
  LifeProgress* operator->() { return static_cast<LifeProgress*>(memory_); }

 private:
  void* const memory_;
};

// Runs in a child: leads a store in `dir` through the steps. False when one fails.
bool RunSteps(const Options& options, const std::string& dir, const std::vector<Step>& steps,
              SharedProgress* progress) {
  std::unique_ptr<Store> store;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    (*progress)->started_count.store(i + 1);
    Status status;
    switch (step.kind) {
      case Step::Kind::kOpen:
        status = Store::Open(AsRun(options), dir, &store);
        break;
      case Step::Kind::kWrite:
        status =
            store->Write(KeyOf(step.key), ValueOf(step.key, step.version, store->value_bytes()));
        break;
      case Step::Kind::kDelete:
        status = store->Delete(KeyOf(step.key));
        break;
      case Step::Kind::kSync:
        status = store->Sync();
        break;
      case Step::Kind::kClose:
        store.reset();
        break;
      case Step::Kind::kRead:
      case Step::Kind::kRange:
        break;
    }
    if (!status.ok()) return false;
    (*progress)->answered_count.store(i + 1);
    const bool syncs = step.kind == Step::Kind::kSync ||
                       (options.sync_mode != SyncMode::kNone && step.kind == Step::Kind::kWrite);
    if (syncs) (*progress)->synced_watermark.store(i + 1);
  }
  return true;
}

// The machine that recovers: the same; one that was started anew; or one that has lost its power
// with all that was staged, which nothing promises to keep.
enum class Boot : uint8_t { kSame, kAnother, kAnotherWithoutStaging };

struct CrashCase {
  SyncMode sync_mode = SyncMode::kNone;
  Boot boot = Boot::kSame;
  // Every stride-th call of the scenario is a place to die, and `recovery_count` of each recovery.
  uint64_t stride = 1;
  uint64_t recovery_count = 1;
  bool sync_on_close = false;
  // Long enough for the journal to use its halves again.
  bool long_life = false;
  // The values lie on two paths.
  bool striped = false;
  // Records are staged by pwrite: each of a write's calls is a place to die.
  bool written = false;
};

class CrashPointsTest : public ::testing::TestWithParam<CrashCase> {
 protected:
  CrashPointsTest()
      : seed_(SweepSeed()),
        random_(seed_),
        steps_(MakeScenario(Reads::kWithout, GetParam().long_life ? Life::kLong : Life::kShort)),
        options_(ScenarioOptions(GetParam().sync_mode)) {
    options_.sync_on_close = GetParam().sync_on_close;
    options_.value_bytes = SweptValueBytes();
    if (GetParam().written) options_.staging_mode = StagingMode::kWritten;
    std::ofstream(boot_id_) << "3f1c0a52-9d0e-4d6e-8f5b-0b6f1c2d3e4f\n";
  }

  // The first child. Its store is left in crashed_.
  End DieInScenario(uint64_t nth, DeathMoment moment) {
    std::filesystem::remove_all(crashed_);
    progress_.Reset();
    DeathPlan death(crashed_, nth, moment, &progress_->died_at);
    const End end = InChildUnder(
        &death, [&] { return RunSteps(OptionsIn(crashed_), crashed_, steps_, &progress_); });
    if (GetParam().boot == Boot::kAnotherWithoutStaging) LoseStaging();
    return end;
  }

  // The second child, on a copy of what the first one left.
  End DieInRecovery(uint64_t mth, DeathMoment moment) {
    CopyCrashed();
    DeathPlan death(copy_, mth, moment);
    BootIdHook boot(boot_id_, &death);
    return InChildUnder(HookOfBoot(&boot, &death), [&] {
      std::unique_ptr<Store> store;
      const bool opened = Store::Open(AsRun(OptionsIn(copy_)), copy_, &store).ok();
      store.reset();
      return opened;
    });
  }

  // In another directory the paths have moved with the store.
  Options OptionsIn(const std::string& dir) const {
    return GetParam().striped ? StripedIn(dir, options_) : options_;
  }

  void CopyCrashed() {
    std::filesystem::remove_all(copy_);
    CopySparse(crashed_, copy_);
  }

  static SystemCallHook* HookOfBoot(SystemCallHook* another, SystemCallHook* same) {
    return GetParam().boot == Boot::kSame ? same : another;
  }

  void LoseStaging() const {
    for (const char* name : {"staging_keys", "staging_values"}) {
      const std::string path = crashed_ + "/" + name;
      if (!std::filesystem::exists(path)) continue;
      const uintmax_t size_bytes = std::filesystem::file_size(path);
      std::filesystem::resize_file(path, 0);
      std::filesystem::resize_file(path, size_bytes);
    }
  }

  // Opens what is left in `dir`, which recovers it, reads everything and closes it. *call_count is
  // how many calls that took.
  Contents Recover(const std::string& dir, uint64_t* call_count = nullptr) {
    DeathPlan counter(dir, DeathPlan::kNever, DeathMoment::kBefore);
    BootIdHook boot(boot_id_, &counter);
    std::string problem;
    Contents contents;
    {
      const ScopedHook scope(HookOfBoot(&boot, &counter));
      std::unique_ptr<Store> store;
      const Status opened = Store::Open(AsRun(OptionsIn(dir)), dir, &store);
      EXPECT_TRUE(opened.ok()) << opened.ToString();
      if (call_count != nullptr) *call_count = counter.call_count();
      if (opened.ok()) contents = ReadContents(store.get(), steps_, &problem);
    }
    EXPECT_EQ(problem, "");
    return contents;
  }

  // What was acknowledged is there, and at most the one step under way besides. After a power
  // loss that much of each bucket which makes a prefix, all that was synced included.
  void ExpectNothingLost(const Contents& contents) {
    const uint64_t started = progress_->started_count;
    if (GetParam().boot == Boot::kSame) {
      ExpectPrefix(contents, progress_->answered_count, started, kAllBuckets);
      return;
    }
    for (uint32_t bucket = 0; bucket < options_.bucket_count; ++bucket) {
      Contents of_bucket;
      for (const auto& [key, version] : contents) {
        if (ScenarioBucketOf(key) == bucket) of_bucket[key] = version;
      }
      ExpectPrefix(of_bucket, progress_->synced_watermark, started, bucket);
    }
  }

  void ExpectPrefix(const Contents& contents, uint64_t least, uint64_t most, uint32_t bucket) {
    for (uint64_t steps = least; steps <= most; ++steps) {
      if (contents == ContentsAfter(steps_, steps, bucket)) return;
    }
    ADD_FAILURE() << "bucket " << static_cast<int32_t>(bucket) << " is as after none of the steps "
                  << least << " to " << most << "\n  found  " << ToString(contents) << "\n  wanted "
                  << ToString(ContentsAfter(steps_, least, bucket));
  }

  // The store goes on from what was recovered, and keeps it.
  void ExpectUsable(const std::string& dir, Contents contents) {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(AsRun(OptionsIn(dir)), dir, &store).ok());
    for (uint64_t key = 0; key < 6; ++key) {
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 5000 + key, options_.value_bytes)).ok());
      contents[key] = 5000 + key;
    }
    store.reset();
    EXPECT_EQ(Recover(dir), contents);
  }

  // Kills some recoveries of what the first child left; each must end in `contents` all the same.
  void KillRecoveries(const Contents& contents, uint64_t call_count) {
    for (uint64_t i = 0; i < GetParam().recovery_count && !HasFailure(); ++i) {
      const uint64_t mth = 1 + random_() % call_count;
      const DeathMoment moment = kMoments[random_() % std::size(kMoments)];
      SCOPED_TRACE(std::string("recovery killed ") + NameOf(moment) + " call " +
                   std::to_string(mth) + " of " + std::to_string(call_count));
      ASSERT_NE(DieInRecovery(mth, moment), End::kFailed);
      EXPECT_EQ(ToString(Recover(copy_)), ToString(contents));
    }
  }

  void CheckCrashed() {
    CopyCrashed();
    uint64_t call_count = 0;
    const Contents contents = Recover(copy_, &call_count);
    ExpectNothingLost(contents);
    ExpectUsable(copy_, contents);
    KillRecoveries(contents, call_count);
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const std::vector<Step> steps_;
  Options options_;
  MemoryDir dir_;
  const std::string crashed_ = dir_.Join("crashed");
  const std::string copy_ = dir_.Join("copy");
  const std::string boot_id_ = dir_.Join("boot_id");
  SharedProgress progress_;
};

TEST_P(CrashPointsTest, NothingAcknowledgedIsLostAtAnyCall) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  bool finished = false;
  const SweepSteps sweep(GetParam().stride * dir_.stride(), 10);
  uint64_t nth = sweep.first;
  for (; !finished && !HasFailure(); nth += sweep.stride) {
    for (const DeathMoment moment : kMoments) {
      // Only writes can be torn.
      if (moment == DeathMoment::kTorn && progress_->died_at != CallKind::kPwrite) continue;
      SCOPED_TRACE(std::string("killed ") + NameOf(moment) + " call " + std::to_string(nth));
      const End end = DieInScenario(nth, moment);
      ASSERT_NE(end, End::kFailed);
      finished = end == End::kFinished;
      if (!std::filesystem::exists(crashed_)) continue;
      CheckCrashed();
    }
  }
  EXPECT_GT(nth, 50u) << "the scenario makes hardly a call";
}

// The cases again, with every call of one recovery.
class RecoveryPointsTest : public CrashPointsTest {};

TEST_P(RecoveryPointsTest, ARecoveryMayBeKilledAtEveryCall) {
  SCOPED_TRACE("seed " + std::to_string(seed_));
  // Somewhere in the middle, with groups and marks under way.
  const uint64_t nth = 100 + random_() % 40;
  SCOPED_TRACE("killed in call " + std::to_string(nth));
  ASSERT_EQ(DieInScenario(nth, DeathMoment::kTorn), End::kKilled);
  CopyCrashed();
  const Contents contents = Recover(copy_);
  ExpectNothingLost(contents);
  bool finished = false;
  const SweepSteps sweep(dir_.stride() * Sized(1, 23), 10);
  for (uint64_t mth = sweep.first; !finished && !HasFailure(); mth += sweep.stride) {
    for (const DeathMoment moment : kMoments) {
      SCOPED_TRACE(std::string("recovery killed ") + NameOf(moment) + " call " +
                   std::to_string(mth));
      const End end = DieInRecovery(mth, moment);
      ASSERT_NE(end, End::kFailed);
      finished = end == End::kFinished;
      EXPECT_EQ(ToString(Recover(copy_)), ToString(contents));
    }
  }
}

constexpr uint64_t kStride = Sized(1, 17);
constexpr Boot kNoStaging = Boot::kAnotherWithoutStaging;
constexpr CrashCase kKilled = {SyncMode::kNone, Boot::kSame, kStride, 1};
constexpr CrashCase kRestarted = {SyncMode::kNone, Boot::kAnother, 2 * kStride, 1};
constexpr CrashCase kPowerLost = {SyncMode::kNone, kNoStaging, 2 * kStride, 1};
constexpr CrashCase kClosedInSync = {SyncMode::kNone, kNoStaging, 4 * kStride, 1, true};
constexpr CrashCase kGroupKilled = {SyncMode::kGroup, Boot::kSame, 4 * kStride, 1};
constexpr CrashCase kGroupPowerLost = {SyncMode::kGroup, kNoStaging, 4 * kStride, 1};
constexpr CrashCase kEachPowerLost = {SyncMode::kEveryWrite, kNoStaging, 5 * kStride, 1};
constexpr CrashCase kLongGroupPowerLost = {
    SyncMode::kGroup, kNoStaging, 67 * kStride, 1, false, true};
constexpr CrashCase kStripedKilled = {SyncMode::kNone, Boot::kSame, 2 * kStride, 1,
                                      false,           false,       true};
constexpr CrashCase kStripedPowerLost = {
    SyncMode::kGroup, kNoStaging, 5 * kStride, 1, false, false, true};
constexpr CrashCase kWrittenKilled = {SyncMode::kNone, Boot::kSame, 3 * kStride, 1,
                                      false,           false,       false,       true};
constexpr CrashCase kWrittenRestarted = {SyncMode::kNone, Boot::kAnother, 12 * kStride, 1,
                                         false,           false,          false,        true};

std::string NameOfCase(const ::testing::TestParamInfo<CrashCase>& info) {
  const CrashCase& c = info.param;
  std::string name = c.sync_mode == SyncMode::kNone    ? "NoSync"
                     : c.sync_mode == SyncMode::kGroup ? "GroupSync"
                                                       : "EveryWriteSync";
  name += c.boot == Boot::kSame ? "SameBoot" : "AnotherBoot";
  if (c.boot == kNoStaging) name += "WithoutStaging";
  if (c.sync_on_close) name += "SyncOnClose";
  if (c.long_life) name += "LongLife";
  if (c.striped) name += "Striped";
  if (c.written) name += "WrittenStaging";
  return name;
}

INSTANTIATE_TEST_SUITE_P(Modes, CrashPointsTest,
                         ::testing::Values(kKilled, kRestarted, kPowerLost, kClosedInSync,
                                           kGroupKilled, kGroupPowerLost, kEachPowerLost,
                                           kLongGroupPowerLost, kStripedKilled, kStripedPowerLost,
                                           kWrittenKilled, kWrittenRestarted),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(Modes, RecoveryPointsTest,
                         ::testing::Values(kKilled, kRestarted, kPowerLost, kGroupKilled,
                                           kGroupPowerLost, kStripedKilled, kWrittenKilled),
                         NameOfCase);

}  // namespace
}  // namespace engine_race::test
