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

TEST(PartOfTimeTest, AtMostThePartIsTaken) {
  PartOfTime time(50);
  uint64_t now = 1000 * kMs;
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

TEST(PartOfTimeTest, ALongTimeOfOtherWorkDoesNotAddUp) {
  PartOfTime time(50);
  uint64_t now = 1000 * kMs;
  ASSERT_TRUE(time.Begin(now));
  time.End(now);
  now += 60'000 * kMs;
  ASSERT_TRUE(time.Begin(now));
  now += 3 * kMs;
  time.End(now);
  EXPECT_FALSE(time.Begin(now + 1)) << "it has taken more than it had";
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
    tuning.leave_time_percent = 1'000'000;
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

TEST_F(FrameFillerTest, WithoutVerificationValuesAreLeftToo) {
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

TEST_F(FrameFillerTest, SupersededValuesAreNotLeft) {
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

TEST_F(FrameFillerTest, StagedValuesAreNotLeft) {
  Make(2 * kRecords);
  for (uint64_t bucket = 0; bucket < 4; ++bucket) store_.Put(KeyIn(bucket, kEach));
  (void)Walk(kLatestVersion);
  EXPECT_EQ(admissions(), kRecords);
}

TEST_F(FrameFillerTest, BatchesAreLeftOutAfterOneThatHadNoUse) {
  Make(2 * kRecords);
  FrameFiller filler(frames_.get(), 1'000'000);
  ASSERT_TRUE(filler.Begin());
  filler.End();
  uint32_t left_out_count = 0;
  while (!filler.Begin()) ++left_out_count;
  EXPECT_EQ(left_out_count, 64u);
}

}  // namespace
}  // namespace engine_race::test
