// Frames whose number changes.
#include "engine_race/l1/frame_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "test/l1/frame_cache_fixture.h"

namespace engine_race::test {
namespace {

// What the share always allows is always there.
TEST_F(FrameCacheTest, AFloorIsLeftWhenAllElseIsGivenBack) {
  share_.limit_bytes = FrameCache::BytesFor(300);
  Make(300, &share_);
  UseAll(FrameKind::kBlock, 0, 250, 2);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 250), 250u);
  share_.limit_bytes = cache_->BytesInUse(64);
  cache_->ShrinkTo(share_.limit_bytes);
  EXPECT_EQ(share_.booked_bytes, share_.limit_bytes);
  EXPECT_LE(cache_->memory_bytes(), share_.booked_bytes);
  EXPECT_EQ(cache_->pool().limit(), 64u);
  UseAll(FrameKind::kBlock, 0, 60, 3);
  EXPECT_GE(HotCount(FrameKind::kBlock, 0, 250), 60u);
  // From nothing it comes back as well.
  cache_->ShrinkTo(0);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 250), 0u);
  UseAll(FrameKind::kBlock, 0, 60, 3);
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 60), 60u);
  EXPECT_EQ(cache_->pool().limit(), 64u);
}

TEST_F(FrameCacheTest, MoreIsBookedBeforeAllIsUsed) {
  share_.limit_bytes = FrameCache::BytesFor(1000);
  Make(1000, &share_);
  UseAll(FrameKind::kBlock, 0, 600, 1);
  EXPECT_GE(cache_->pool().spare_count(), 600u / 4);
}

// Values hang on blocks that lie in the tail of the frames, and the other way round.
TEST_F(FrameCacheTest, ALimitAlsoEvictsWhatIsReachedThroughTheTail) {
  Make(64);
  constexpr uint32_t kDepth = 3;
  std::vector<uint32_t> frames;
  for (uint32_t i = 0; i < 60; ++i) {
    frames.push_back(cache_->TakeFor(FrameKind::kBlock, i, 1));
    ASSERT_EQ(frames.back(), i);
  }
  // Chains of three frames: from the tail down to the first frames.
  for (uint32_t chain = 0; chain < 20; ++chain) {
    uint32_t parent = kNoFrame;
    for (uint32_t depth = 0; depth < kDepth; ++depth) {
      const uint32_t frame = 40 - 20 * depth + chain;
      FrameInfo& info = cache_->info(frame);
      info.parent = &SwipOf(FrameKind::kBlock, frame);
      info.place = frame;
      info.parent_frame = parent;
      const EpochManager::Guard guard(cache_->epochs());
      ASSERT_TRUE(BlockOwner::Install(&cache_->pool(), frame, Swip(uint64_t{frame})));
      parent = frame;
    }
  }
  ASSERT_EQ(HotCount(FrameKind::kBlock, 0, 60), 60u);
  cache_->SetLimit(cache_->BytesInUse(50));
  // Ten chains are gone, the others whole.
  EXPECT_EQ(HotCount(FrameKind::kBlock, 0, 60), 30u);
  for (uint32_t frame = 0; frame < 60; ++frame) {
    EXPECT_EQ(IsHot(FrameKind::kBlock, frame), frame % 20 < 10) << frame;
  }
  EXPECT_EQ(cache_->pool().touched_count(), 50u);
  EXPECT_EQ(blocks_.release_count, 30u);
  cache_->SetLimit(0);
  EXPECT_EQ(cache_->pool().touched_count(), 0u);
}

// A block stays above the limit because a child of it is about to be installed. It gets none.
TEST_F(FrameCacheTest, NoFrameIsInstalledUnderAParentAboveTheLimit) {
  Make(8);
  uint32_t frames[8];
  for (uint32_t i = 0; i < 8; ++i) frames[i] = cache_->TakeFor(FrameKind::kBlock, i, 3);
  const auto install = [&](uint32_t frame, uint32_t parent_frame) {
    FrameInfo& info = cache_->info(frame);
    info.parent = &SwipOf(FrameKind::kBlock, frame);
    info.place = frame;
    info.parent_frame = parent_frame;
    const EpochManager::Guard guard(cache_->epochs());
    return BlockOwner::Install(&cache_->pool(), frame, Swip(uint64_t{frame}));
  };
  ASSERT_EQ(frames[0], 0u);
  ASSERT_EQ(frames[7], 7u);
  ASSERT_TRUE(install(7, kNoFrame));
  ASSERT_TRUE(cache_->info(7).AddChild());
  cache_->SetLimit(cache_->BytesInUse(4));
  ASSERT_TRUE(IsHot(FrameKind::kBlock, 7));
  EXPECT_FALSE(install(0, 7));
  cache_->info(7).RemoveChild();
  for (uint32_t i = 0; i < 7; ++i) cache_->GiveBack(i);
  cache_->SetLimit(cache_->BytesInUse(4));
  EXPECT_FALSE(IsHot(FrameKind::kBlock, 7));
  EXPECT_EQ(cache_->pool().touched_count(), 4u);
}

// Readers of both kinds beside a changing limit. Each checks the page that it finds.
TEST_F(FrameCacheTest, BothKindsBesideAChangingLimit) {
  Make(48, nullptr, 20);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  const uint64_t reads = Sized(100000, 10000);
  for (uint64_t t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (uint64_t i = 0; i < reads; ++i) {
        const FrameKind kind = random() % 2 == 0 ? FrameKind::kBlock : FrameKind::kValue;
        Use(kind, static_cast<uint32_t>(random() % (random() % 2 == 0 ? 100 : 16)));
      }
    });
  }
  std::thread resizer([&] {
    std::mt19937_64 random(7);
    while (!stop) {
      cache_->SetLimit(cache_->BytesInUse(static_cast<uint32_t>(random() % 49)));
      EXPECT_LE(cache_->pool().used_count(FrameKind::kValue), 20u);
      cache_->EvictSome();
      std::this_thread::yield();
    }
  });
  for (std::thread& reader : readers) reader.join();
  stop = true;
  resizer.join();
  EXPECT_GT(cache_->admission_count(FrameKind::kBlock), 0u);
  EXPECT_GT(cache_->admission_count(FrameKind::kValue), 0u);
}

}  // namespace
}  // namespace engine_race::test
