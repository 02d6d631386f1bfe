#include "engine_race/scan/frame_filler.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

#include "engine_race/l1/frame_cache.h"
#include "engine_race/scan/chunk_reader.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST(TimeBudgetTest, AtMostThePartIsTaken) {
  uint64_t now = 1000 * kMs;
  TimeBudget time(50, now);
  uint64_t taken = 0;
  constexpr uint64_t kOthers = 1 * kMs;
  constexpr uint64_t kRounds = 300;
  for (uint64_t round = 0; round < kRounds; ++round) {
    now += kOthers;
    if (!time.Begin(now)) continue;
    now += 3 * kMs;
    time.End(now);
    taken += 3 * kMs;
  }
  EXPECT_LE(taken, kRounds * kOthers / 2 + 5 * kMs);
  EXPECT_GE(taken, kRounds * kOthers / 2 - 5 * kMs);
}

TEST(TimeBudgetTest, NothingIsTakenBeforeOtherWork) {
  TimeBudget time(50, 1000 * kMs);
  EXPECT_FALSE(time.Begin(1000 * kMs));
}

TEST(TimeBudgetTest, ALongTimeOfOtherWorkDoesNotAddUp) {
  uint64_t now = 1000 * kMs;
  TimeBudget time(50, now);
  now += 60'000 * kMs;
  ASSERT_TRUE(time.Begin(now));
  now += 3 * kMs;
  time.End(now);
  EXPECT_FALSE(time.Begin(now + 1)) << "it has taken more than it had";
}

TEST(TimeBudgetTest, ALongStopDoesNotAddUpEither) {
  uint64_t now = 1000 * kMs;
  TimeBudget time(50, now);
  now += 10 * kMs;
  ASSERT_TRUE(time.Begin(now));
  now += 3'600'000 * kMs;
  time.End(now);
  uint64_t rounds = 0;
  for (; rounds < 100 && !time.Begin(now); ++rounds) now += 100 * kMs;
  EXPECT_LT(rounds, 100u);
}

TEST(TimeBudgetTest, AfterAllIsTakenItRestsForALongRun) {
  uint64_t now = 1000 * kMs;
  TimeBudget time(50, now);
  now += 4 * kMs;
  uint64_t run = 0;
  while (time.Begin(now)) {
    now += kMs / 10;
    time.End(now);
    ++run;
  }
  EXPECT_EQ(run, 20u) << "2 ms";
  uint64_t rest = 0;
  while (!time.Begin(now)) {
    now += kMs / 10;
    ++rest;
  }
  EXPECT_EQ(rest, 40u) << "twice as long";
}

class FrameFillerTest : public ::testing::Test {
 protected:
  // Whole groups in each of four buckets, so that none is staged.
  static constexpr uint64_t kEach = 128;
  static constexpr uint64_t kRecords = 4 * kEach;

  FrameFillerTest() : store_(4) {
    PutAll(1);
    store_.OpenReader();
  }
  ~FrameFillerTest() override {
    pool_.reset();
    coordinator_.reset();
    frames_.reset();
  }

  static uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i; }
  void PutAll(uint64_t version) {
    for (uint64_t i = 0; i < kRecords; ++i) store_.Put(KeyIn(i / kEach, i % kEach), version);
  }
  void Make(uint32_t frame_count, bool verify = true) {
    using l1::FrameCache;
    ASSERT_TRUE(FrameCache::Create(FrameCache::BytesFor(frame_count), nullptr, &cache_, {},
                                   FrameCache::kBlockBytes, &store_.index->epochs())
                    .ok());
    ASSERT_TRUE(
        ValueFrames::Create(store_.index.get(), cache_.get(), kValueBytes, ~uint64_t{0}, &frames_)
            .ok());
    Options options = store_.options;
    options.verify_checksums = verify;
    RangeTuning tuning;
    // No stall of a busy machine makes a walk rest.
    tuning.admit_time_percent = 1'000'000'000;
    context_ =
        std::make_unique<ScanContext>(*store_.log, *store_.index, options, tuning, frames_.get());
    coordinator_ = std::make_unique<Coordinator>(context_.get(), 8 * kMiB, /*share=*/nullptr);
    pool_ = std::make_unique<WindowPool>(context_.get(), coordinator_.get(), /*window_count=*/1);
  }
  // Returns the bytes that it read from value files.
  uint64_t Walk(uint64_t version) {
    const uint64_t before = context_->read_bytes.load();
    ChunkReader reader(context_.get(), pool_.get());
    ModelVisitor visitor(store_.model);
    uint64_t first = 0;
    do {
      EXPECT_TRUE(reader.Read(first, UINT64_MAX, version, 64).ok());
      EXPECT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
      first = reader.next_key();
    } while (!reader.complete());
    EXPECT_TRUE(visitor.complete()) << visitor.count;
    return context_->read_bytes.load() - before;
  }
  uint64_t admissions() const { return cache_->admission_count(l1::FrameKind::kValue); }

  ScanStore store_;
  std::unique_ptr<l1::FrameCache> cache_;
  std::unique_ptr<ValueFrames> frames_;
  std::unique_ptr<ScanContext> context_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<WindowPool> pool_;
};

TEST_F(FrameFillerTest, TheSecondWalkReadsNothingFromTheLog) {
  Make(2 * kRecords);
  EXPECT_GE(Walk(kLatestVersion), store_.live_bytes());
  EXPECT_EQ(admissions(), kRecords);
  EXPECT_EQ(Walk(kLatestVersion), 0u);
  EXPECT_EQ(admissions(), kRecords);
}

TEST_F(FrameFillerTest, WithoutVerificationValuesAreAdmittedToo) {
  Make(2 * kRecords, /*verify=*/false);
  (void)Walk(kLatestVersion);
  EXPECT_EQ(admissions(), kRecords);
  EXPECT_EQ(Walk(kLatestVersion), 0u);
}

TEST_F(FrameFillerTest, OnlyFreeFramesAreTaken) {
  Make(100);
  (void)Walk(kLatestVersion);
  const uint64_t first_count = admissions();
  EXPECT_GE(first_count, 90u);
  EXPECT_LE(first_count, 100u);
  (void)Walk(kLatestVersion);
  EXPECT_EQ(admissions(), first_count);
}

TEST_F(FrameFillerTest, SupersededValuesAreNotAdmitted) {
  Make(2 * kRecords);
  ViewRegistry::View view;
  ASSERT_TRUE(store_.index->views().Take(&view).ok());
  auto model = store_.model;
  PutAll(2);
  std::swap(model, store_.model);
  (void)Walk(view.version);
  EXPECT_EQ(admissions(), 0u);
  std::swap(model, store_.model);
  EXPECT_GT(Walk(kLatestVersion), 0u);
  EXPECT_EQ(admissions(), kRecords);
  ViewRegistry::Release(&view);
}

TEST_F(FrameFillerTest, StagedValuesAreNotAdmitted) {
  Make(2 * kRecords);
  for (uint64_t bucket = 0; bucket < 4; ++bucket) store_.Put(KeyIn(bucket, kEach));
  (void)Walk(kLatestVersion);
  EXPECT_EQ(admissions(), kRecords);
}

// Values lie in frames in runs, because walks that must not take longer leave some to the next
// ones.
TEST_F(FrameFillerTest, WalksFindWhatIsInFramesBehindWhatIsNot) {
  Make(2 * kRecords);
  ChunkReader reader(context_.get(), pool_.get());
  // The end of each bucket.
  for (uint64_t bucket = 0; bucket < 4; ++bucket) {
    ASSERT_TRUE(reader.Read(KeyIn(bucket, 64), KeyIn(bucket, kEach), kLatestVersion, 64).ok());
  }
  reader.GiveBack();
  ASSERT_EQ(admissions(), kRecords / 2);
  context_->read_bytes = 0;
  for (uint64_t bucket = 0; bucket < 4; ++bucket) {
    ASSERT_TRUE(reader.Read(KeyIn(bucket, 32), KeyIn(bucket, kEach), kLatestVersion, 96).ok());
  }
  reader.GiveBack();
  EXPECT_LE(context_->read_bytes.load(), 4 * (32 + 16) * kValueBytes);
  EXPECT_EQ(admissions(), kRecords / 2 + 4 * 32);
}

TEST_F(FrameFillerTest, WalksAreNoUseOfMemory) {
  Make(2 * kRecords);
  const uint64_t before = cache_->UseCount();
  (void)Walk(kLatestVersion);
  ASSERT_EQ(admissions(), kRecords);
  EXPECT_EQ(cache_->UseCount(), before);
}

}  // namespace
}  // namespace engine_race::test
