// Every system call of reclaim is a place to die, or to fail. The store keeps each acknowledged
// record, and Verify finds nothing wrong with it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
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

constexpr uint64_t kKeys = 60;
constexpr uint64_t kSecondBucket = uint64_t{1} << 63;

Options ReclaimOptions(SyncMode sync_mode) {
  Options options = ScenarioOptions(sync_mode);
  options.bucket_count = 2;
  options.file_count = 1;
  options.bucket_capacity_records = 4 * 256;
  options.key_group_bytes = 256 * kKeyEntryBytes;
  options.value_group_bytes = 8 * kValueBytes;
  options.value_bytes = SweptValueBytes();
  return options;
}

// The calls on a store that has been overwritten: batches of puts and deletions over both buckets,
// and Compact between them. The first Compact begins the rows, later ones use slots again.
class Deeds {
 public:
  static constexpr uint64_t kBatches = 12;
  static bool CompactsAfter(uint64_t number) { return number % 4 == 0; }

  // Of the writes before: version by key; 0 is a deletion.
  static Contents BatchOf(uint64_t number) {
    Contents writes;
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t key = (i % 2) * kSecondBucket + (number * 7 + i / 2) % kKeys;
      writes[key] = i % 5 == 0 ? 0 : 100000 + number * 100 + i;
    }
    return writes;
  }
  static void Apply(uint64_t number, Contents* contents) {
    for (const auto& [key, version] : BatchOf(number)) {
      if (version == 0) contents->erase(key);
      if (version != 0) (*contents)[key] = version;
    }
  }
  static Status Write(Store* store, uint64_t number) {
    WriteBatch batch(store->value_bytes());
    for (const auto& [key, version] : BatchOf(number)) {
      const Status added = version == 0
                               ? batch.Delete(KeyOf(key))
                               : batch.Put(KeyOf(key), ValueOf(key, version, store->value_bytes()));
      if (!added.ok()) return added;
    }
    return store->Write(batch);
  }
};

class ReclaimPointsTest : public ::testing::TestWithParam<SyncMode> {
 protected:
  // Writes every key ten times over, which takes more than two rows of each bucket.
  void MakeBase() {
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(AsRun(options_), base_, &store).ok());
    for (uint64_t version = 1; version <= 10; ++version) {
      for (uint64_t i = 0; i < 2 * kKeys; ++i) {
        const uint64_t key = (i % 2) * kSecondBucket + i / 2;
        ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, version, options_.value_bytes)).ok());
        base_contents_[key] = version;
      }
    }
    for (uint64_t key = 0; key < kKeys; ++key) steps_.push_back({Step::Kind::kWrite, key, 1});
  }
  void CopyBase() {
    std::filesystem::remove_all(dir_);
    CopySparse(base_, dir_);
  }
  Contents After(uint64_t batch_count) const {
    Contents contents = base_contents_;
    for (uint64_t i = 0; i < batch_count; ++i) Deeds::Apply(i, &contents);
    return contents;
  }

  // Opens what is left: it is as after some number of batches from `least` to `most`.
  void ExpectWhole(uint64_t least, uint64_t most) {
    VerifyReport report;
    std::string bad;
    const Status verified = Store::Verify(options_, dir_, &report,
                                          [&](const BadRecord& record) { bad += record.what; });
    EXPECT_TRUE(verified.ok() || verified.code() == Code::kNotSupported)
        << verified.ToString() << " " << bad;
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(AsRun(options_), dir_, &store);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    ExpectContents(store.get(), least, most);
    // The next compaction goes on from there.
    ASSERT_TRUE(store->Compact().ok());
    ASSERT_TRUE(Deeds::Write(store.get(), Deeds::kBatches).ok());
    std::string problem;
    Contents wanted = found_;
    Deeds::Apply(Deeds::kBatches, &wanted);
    EXPECT_EQ(ToString(ReadContents(store.get(), steps_, &problem)), ToString(wanted));
    EXPECT_EQ(problem, "");
    store.reset();
    EXPECT_TRUE(Store::Verify(options_, dir_, &report, {}).ok());
  }
  void ExpectContents(Store* store, uint64_t least, uint64_t most) {
    std::string problem;
    found_ = ReadContents(store, steps_, &problem);
    EXPECT_EQ(problem, "");
    for (uint64_t count = least; count <= most; ++count) {
      if (found_ == After(count)) return;
    }
    ADD_FAILURE() << "as after none of " << least << " to " << most << " batches\n  found  "
                  << ToString(found_) << "\n  wanted " << ToString(After(least));
  }

  Options options_ = ReclaimOptions(GetParam());
  MemoryDir memory_;
  const std::string base_ = memory_.Join("base");
  const std::string dir_ = memory_.Join("copy");
  Contents base_contents_;
  Contents found_;
  std::vector<Step> steps_;
};

INSTANTIATE_TEST_SUITE_P(Modes, ReclaimPointsTest,
                         ::testing::Values(SyncMode::kNone, SyncMode::kGroup));

// In memory that a child shares with its parent.
struct ReclaimProgress {
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> answered{0};
  DeathPlan::Report died_at{CallKind::kPread};
};

TEST_P(ReclaimPointsTest, KilledAtAnyCall) {
  ASSERT_NO_FATAL_FAILURE(MakeBase());
  void* const memory = ::mmap(nullptr, sizeof(ReclaimProgress), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const uint64_t seed = SweepSeed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const SweepSteps sweep(Sized(5, 31) * memory_.stride(), 6);
  bool finished = false;
  uint64_t nth = sweep.first;
  for (; !finished && !HasFailure(); nth += sweep.stride) {
    const DeathMoment moment = static_cast<DeathMoment>((seed + nth) % 3);
    SCOPED_TRACE("killed in call " + std::to_string(nth));
    CopyBase();
    auto* const progress = new (memory) ReclaimProgress;
    DeathPlan death(dir_, nth, moment, &progress->died_at);
    const End end = InChildUnder(&death, [&] {
      std::unique_ptr<Store> store;
      bool good = Store::Open(AsRun(options_), dir_, &store).ok();
      for (uint64_t i = 0; i < Deeds::kBatches && good; ++i) {
        progress->begun = i + 1;
        good = Deeds::Write(store.get(), i).ok();
        progress->answered = i + 1;
        if (good && Deeds::CompactsAfter(i)) good = store->Compact().ok();
      }
      return good;
    });
    ASSERT_NE(end, End::kFailed);
    finished = end == End::kFinished;
    ExpectWhole(progress->answered, progress->begun);
  }
  EXPECT_GT(nth, 300u) << "hardly a call was made";
  ::munmap(memory, sizeof(ReclaimProgress));
}

// The store is readable throughout. Writes that fail may have happened.
TEST_P(ReclaimPointsTest, AnyCallMayFail) {
  ASSERT_NO_FATAL_FAILURE(MakeBase());
  uint64_t turn = 0;
  const SweepSteps sweep(Sized(5, 31) * memory_.stride(), 6);
  bool fired = true;
  uint64_t nth = sweep.first;
  for (; fired && !HasFailure(); nth += sweep.stride) {
    const Fault fault = turn % 2 == 0 ? Fault::kDiskFull : Fault::kIoError;
    const Repeat repeat = turn / 2 % 2 == 0 ? Repeat::kOnce : Repeat::kFromThenOn;
    ++turn;
    CopyBase();
    FaultPlan plan(dir_, fault, nth, repeat);
    const ScopedHook hook(&plan);
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Open(AsRun(options_), dir_, &store).ok());
    plan.Arm();
    uint64_t answered = 0;
    uint64_t begun = 0;
    for (uint64_t i = 0; i < Deeds::kBatches; ++i) {
      // The batches of one history: the first that fails is the last.
      if (begun == answered) {
        begun = i + 1;
        if (Deeds::Write(store.get(), i).ok()) answered = begun;
      }
      if (Deeds::CompactsAfter(i)) static_cast<void>(store->Compact().ok());
    }
    fired = plan.fired();
    plan.Disarm();
    SCOPED_TRACE(plan.ToString());
    ExpectContents(store.get(), answered, begun);
    store.reset();
    ExpectWhole(answered, begun);
  }
  EXPECT_GT(nth, 100u) << "hardly a call was made";
}

}  // namespace
}  // namespace engine_race::test
