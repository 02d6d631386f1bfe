// What is admitted to frames, and what has to leave them.
#include "engine_race/l1/frame_cache.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "test/l1/frame_cache_fixture.h"

namespace engine_race::test {
namespace {

// One kind is used often and has all the frames. A pass over the other kind evicts nothing, and is
// admitted once it is used more often.
class FrequentKindTest : public FrameCacheTest, public ::testing::WithParamInterface<FrameKind> {};

TEST_P(FrequentKindTest, IsNotEvictedForWhatIsRare) {
  const FrameKind frequent = GetParam();
  const FrameKind rare = frequent == FrameKind::kBlock ? FrameKind::kValue : FrameKind::kBlock;
  Make(100);
  UseAll(frequent, 0, 97, 8);
  ASSERT_EQ(HotCount(frequent, 0, 97), 97u);
  UseAll(rare, 0, 1000, 1);
  EXPECT_GE(HotCount(frequent, 0, 97), 97u * 9 / 10);
  EXPECT_LE(cache_->admission_count(rare), 20u);
  UseAll(rare, 0, 50, 60);
  EXPECT_GE(HotCount(rare, 0, 50), 45u);
  EXPECT_EQ(cache_->pool().used_count(rare), HotCount(rare, 0, 1000));
  EXPECT_EQ(cache_->pool().used_count(frequent), HotCount(frequent, 0, 97));
}

INSTANTIATE_TEST_SUITE_P(, FrequentKindTest,
                         ::testing::Values(FrameKind::kBlock, FrameKind::kValue));

TEST_F(FrameCacheTest, AnOrphanIsWorthNothing) {
  Make(1);
  UseAll(FrameKind::kBlock, 7, 8, 15);
  ASSERT_TRUE(IsHot(FrameKind::kBlock, 7));
  // Often enough for another look at the victim, whatever it was worth before.
  constexpr int kTimes = 150;
  UseAll(FrameKind::kValue, 1, 2, kTimes);
  EXPECT_FALSE(IsHot(FrameKind::kValue, 1));
  blocks_.orphan_id = IdOf(FrameKind::kBlock, 7);
  UseAll(FrameKind::kValue, 1, 2, kTimes);
  EXPECT_TRUE(IsHot(FrameKind::kValue, 1));
  EXPECT_EQ(cache_->pool().eviction_count(FrameKind::kBlock), 1u);
  EXPECT_EQ(cache_->pool().eviction_count(FrameKind::kValue), 0u);
}

TEST_F(FrameCacheTest, ValuesKeepTheirLimitAndTakeOnlyTheirOwn) {
  Make(100, nullptr, 10);
  // Rare blocks are no victims for values that are read often, if that would be one value too many.
  UseAll(FrameKind::kBlock, 0, 40, 1);
  UseAll(FrameKind::kValue, 0, 10, 8);
  EXPECT_EQ(HotCount(FrameKind::kValue, 0, 10), 10u);
  for (uint32_t page = 10; page < 30; ++page) {
    UseAll(FrameKind::kValue, page, page + 1, 4);
    ASSERT_LE(HotCount(FrameKind::kValue, 0, 100), 10u);
  }
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 40), 40u);
  // Other values are admitted in exchange, when they are read more often.
  UseAll(FrameKind::kValue, 50, 60, 60);
  EXPECT_GE(HotCount(FrameKind::kValue, 50, 60), 9u);
  EXPECT_EQ(HotCount(FrameKind::kValue, 0, 100), 10u);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 40), 40u);
  // Blocks have the rest.
  UseAll(FrameKind::kBlock, 0, 87, 3);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 87), 87u);
}

// Near its limit a kind is scarce, so its hits are noted, although the other kind has frames.
TEST_F(FrameCacheTest, AKindIsScarceNearItsLimit) {
  Make(100, nullptr, 16);
  UseAll(FrameKind::kValue, 0, 13, 2);
  EXPECT_FALSE(cache_->AreScarce(FrameKind::kValue));
  UseAll(FrameKind::kValue, 13, 14, 2);
  EXPECT_TRUE(cache_->AreScarce(FrameKind::kValue));
  EXPECT_FALSE(cache_->AreScarce(FrameKind::kBlock));
  UseAll(FrameKind::kBlock, 0, 80, 2);
  EXPECT_TRUE(cache_->AreScarce(FrameKind::kBlock));
}

// A frame that was evicted counts as its kind's until its readers have left.
TEST_F(FrameCacheTest, ARetiredValueCountsForTheLimit) {
  Make(100, nullptr, 10);
  UseAll(FrameKind::kValue, 0, 10, 3);
  ASSERT_EQ(cache_->pool().left_count(FrameKind::kValue), 0u);
  {
    const EpochManager::Guard guard(cache_->epochs());
    UseAll(FrameKind::kValue, 20, 21, 15);
    EXPECT_EQ(HotCount(FrameKind::kValue, 0, 10), 9u);
    EXPECT_FALSE(IsHot(FrameKind::kValue, 20));
    EXPECT_EQ(cache_->pool().left_count(FrameKind::kValue), 0u);
  }
  UseAll(FrameKind::kValue, 20, 21, 1);
  EXPECT_TRUE(IsHot(FrameKind::kValue, 20));
}

TEST_F(FrameCacheTest, NoValueIsAdmittedIfNoneMayBe) {
  Make(100, nullptr, 0);
  UseAll(FrameKind::kValue, 0, 10, 15);
  EXPECT_EQ(HotCount(FrameKind::kValue, 0, 10), 0u);
  UseAll(FrameKind::kBlock, 0, 10, 1);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 10), 10u);
}

// Also while there may be more memory, but none can be had: many evicted frames are freed by one
// look at the readers.
TEST_F(FrameCacheTest, AdmissionsInExchangeShareALookAtTheReaders) {
  share_.limit_bytes = FrameCache::BytesFor(1000);
  Make(1000, &share_);
  UseAll(FrameKind::kBlock, 0, 500, 1);
  share_.refuses = true;
  UseAll(FrameKind::kBlock, 500, 1000, 1);
  ExpectFewLooks(0, 200);
}

TEST_F(FrameCacheTest, AdmissionsOfAKindAtItsLimitDoSoToo) {
  Make(1000, nullptr, 400);
  UseAll(FrameKind::kValue, 0, 400, 1);
  ExpectFewLooks(1000, 1200);
  EXPECT_LE(HotCount(FrameKind::kValue, 0, kPages), 400u);
}

TEST_F(FrameCacheTest, ARemovedOwnerIsNotCalledAgain) {
  Make(32);
  UseAll(FrameKind::kBlock, 0, 10, 2);
  UseAll(FrameKind::kValue, 0, 10, 2);
  {
    // As if the system had refused to tell that the readers have left.
    const EpochManager::Guard guard(cache_->epochs());
    cache_->RemoveOwner(FrameKind::kValue);
  }
  EXPECT_EQ(HotCount(FrameKind::kValue, 0, 10), 0u);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 10), 10u);
  // The frames serve blocks.
  UseAll(FrameKind::kBlock, 0, 32, 15);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 32), 31u);
  EXPECT_EQ(values_.release_count, 0u);
  cache_->SetOwner(FrameKind::kValue, &values_);
}

TEST_F(FrameCacheTest, HitsOfBothKindsAreCountedApart) {
  Make(32);
  UseAll(FrameKind::kBlock, 0, 3, 3);
  UseAll(FrameKind::kValue, 0, 2, 4);
  const EpochManager::Counts counts = cache_->epochs().TakeCounts();
  EXPECT_EQ(counts.block_misses, 3u);
  EXPECT_EQ(counts.block_hits, 6u);
  EXPECT_EQ(counts.value_misses, 2u);
  EXPECT_EQ(counts.value_hits, 6u);
  EXPECT_EQ(cache_->admission_count(FrameKind::kBlock), 3u);
  EXPECT_EQ(cache_->admission_count(FrameKind::kValue), 2u);
  EXPECT_EQ(cache_->UseCount(), 6u + 6u + 3u + 2u);
}

}  // namespace
}  // namespace engine_race::test
