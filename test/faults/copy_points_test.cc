// Checkpoints, backups and restores that die or fail at every call on the files that they make:
// what they leave is no store and no backup, or a whole one. Another call replaces it.
//
// Children are forked from a process that has no store open.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/copies/backup_format.h"
#include "engine_race/log/format.h"
#include "engine_race/store.h"
#include "test/e2e/copied_disks.h"
#include "test/faults/dying_child.h"
#include "test/faults/fault_plan.h"
#include "test/faults/memory_dir.h"
#include "test/faults/scenario.h"
#include "test/sweep.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

namespace fs = std::filesystem;

enum class Work : uint8_t { kCheckpoint, kBackup, kRestore };

const char* WorkName(Work work) {
  switch (work) {
    case Work::kCheckpoint:
      return "Checkpoint";
    case Work::kBackup:
      return "Backup";
    case Work::kRestore:
      return "Restore";
  }
  return "";
}

// Copies of one store, made under `parent`.
class CopyMaker {
 public:
  CopyMaker(Work work, std::string parent) : work_(work), parent_(std::move(parent)) {
    options_ = ScenarioOptions(SyncMode::kNone);
    const std::unique_ptr<Store> store = OpenStore(source(), options_);
    for (uint64_t i = 0; i < 90; ++i) {
      const uint64_t key = i % 40 << 58;
      EXPECT_TRUE(store->Write(KeyOf(key), ValueOf(key, i + 1)).ok());
      contents_[key] = i + 1;
    }
    EXPECT_TRUE(store->Backup(parent_ + "/full").ok());
  }

  std::string target() const { return parent_ + "/target"; }

  Status Make() const {
    if (work_ == Work::kRestore) return Store::Restore(options_, parent_ + "/full", target());
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(AsRun(options_), source(), &store));
    return work_ == Work::kBackup ? store->Backup(target()) : store->Checkpoint(target());
  }

  // Whether a whole copy lies there; whatever else does must be refused.
  bool IsWhole() const {
    if (work_ == Work::kBackup) return IsWholeBackup();
    Options options = options_;
    options.create_if_missing = fs::exists(target() + "/" + format::kManifestUnfinishedName);
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options), target(), &store);
    if (!opened.ok()) {
      EXPECT_EQ(opened.code(), options.create_if_missing ? Code::kCorruption : Code::kNotFound)
          << opened.ToString();
      return false;
    }
    EXPECT_EQ(ContentsOf(store.get()), contents_);
    return true;
  }

  // The work again must replace what is left; the source is as it was.
  void ExpectCanBeMade() const {
    if (IsWhole()) fs::remove_all(target());
    const Status made = Make();
    ASSERT_TRUE(made.ok()) << made.ToString();
    EXPECT_TRUE(IsWhole());
    fs::remove_all(target());
    ASSERT_EQ(ContentsOf(source(), options_), contents_);
  }

 private:
  std::string source() const { return parent_ + "/source"; }

  bool IsWholeBackup() const {
    const Status verified = Store::VerifyBackup({}, target());
    if (verified.ok()) {
      const std::string restored = parent_ + "/restored";
      EXPECT_TRUE(Store::Restore(options_, target(), restored).ok());
      EXPECT_EQ(ContentsOf(restored, options_), contents_);
      fs::remove_all(restored);
      return true;
    }
    EXPECT_TRUE(verified.code() == Code::kNotFound || verified.code() == Code::kCorruption)
        << verified.ToString();
    return false;
  }

  const Work work_;
  const std::string parent_;
  Options options_;
  KeyVersions contents_;
};

void KillEverywhere(const CopyMaker& maker, uint64_t stride) {
  bool finished = false;
  const SweepSteps sweep(stride, 10);
  uint64_t nth = sweep.first;
  for (; !finished && !testing::Test::HasFailure(); nth += sweep.stride) {
    for (const DeathMoment moment :
         {DeathMoment::kBefore, DeathMoment::kTorn, DeathMoment::kAfter}) {
      SCOPED_TRACE("killed at call " + std::to_string(nth));
      DeathPlan death(maker.target(), nth, moment);
      const End end = InChildUnder(&death, [&] { return maker.Make().ok(); });
      ASSERT_NE(end, End::kFailed);
      finished = end == End::kFinished;
      ASSERT_NO_FATAL_FAILURE(maker.ExpectCanBeMade());
    }
  }
  EXPECT_GT(nth, 15u) << "the work makes hardly a call";
}

void FailEverywhere(const CopyMaker& maker, uint64_t stride) {
  const SweepSteps sweep(stride, 10);
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kNoFiles}) {
    for (const Repeat repeat : {Repeat::kOnce, Repeat::kFromThenOn}) {
      bool fired = true;
      for (uint64_t nth = sweep.first; fired && !testing::Test::HasFailure(); nth += sweep.stride) {
        FaultPlan plan(maker.target(), fault, nth, repeat);
        SCOPED_TRACE(plan.ToString() + ", call " + std::to_string(nth));
        Status made;
        {
          const ScopedHook hook(&plan);
          plan.Arm();
          made = maker.Make();
          plan.Disarm();
        }
        fired = plan.fired();
        EXPECT_TRUE(fired || made.ok()) << made.ToString();
        if (made.ok()) {
          EXPECT_TRUE(maker.IsWhole());
        }
        ASSERT_NO_FATAL_FAILURE(maker.ExpectCanBeMade());
      }
    }
  }
}

class CopyPointsTest : public testing::TestWithParam<Work> {};

TEST_P(CopyPointsTest, KilledAtAnyCallItLeavesNothingOrAWholeCopy) {
  const MemoryDir dir;
  const CopyMaker maker(GetParam(), dir.path());
  KillEverywhere(maker, dir.stride() * Sized(1, 7));
}

TEST_P(CopyPointsTest, AFailureAtAnyCallLeavesNothingOrAWholeCopy) {
  const MemoryDir dir;
  const CopyMaker maker(GetParam(), dir.path());
  FailEverywhere(maker, dir.stride() * Sized(1, 7));
}

INSTANTIATE_TEST_SUITE_P(Works, CopyPointsTest,
                         testing::Values(Work::kCheckpoint, Work::kBackup, Work::kRestore),
                         [](const auto& info) { return std::string(WorkName(info.param)); });

// Where blocks are shared.
class ClonePointsTest : public testing::TestWithParam<DiskKind> {};

TEST_P(ClonePointsTest, KilledAtAnyCallItLeavesNothingOrAWholeCopy) {
  const SmallDisk disk(GetParam());
  ASSERT_TRUE(disk.mounted());
  fs::create_directory(disk.StoreDir());
  const CopyMaker maker(Work::kCheckpoint, disk.StoreDir());
  KillEverywhere(maker, Sized(5, 29));
}

TEST_P(ClonePointsTest, AFailureAtAnyCallLeavesNothingOrAWholeCopy) {
  const SmallDisk disk(GetParam());
  ASSERT_TRUE(disk.mounted());
  fs::create_directory(disk.StoreDir());
  const CopyMaker maker(Work::kCheckpoint, disk.StoreDir());
  FailEverywhere(maker, Sized(3, 29));
}

INSTANTIATE_TEST_SUITE_P(Disks, ClonePointsTest,
                         testing::ValuesIn(Mountable({DiskKind::kXfs, DiskKind::kBtrfs})),
                         NameOfDisk);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ClonePointsTest);

}  // namespace
}  // namespace engine_race::test
