// Blocks and values that compete for frames, without the index and the log around them.
#include "engine_race/l1/frame_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "engine_race/l1/block_owner.h"
#include "test/fake_memory_share.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameCache;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FrameOwner;
using l1::kNoFrame;

constexpr uint64_t kValueIds = uint64_t{1} << 32;

// An owner that counts its calls. Everything else is BlockOwner's work.
class CountingOwner final : public FrameOwner {
 public:
  explicit CountingOwner(FrameKind kind) : kind_(kind) {}
  Cooled Cool(uint32_t frame, FrameInfo* info) noexcept override {
    EXPECT_EQ(info->kind, kind_);
    return blocks_.Cool(frame, info);
  }
  bool IsOrphan(uint32_t /*frame*/, FrameInfo* info) noexcept override {
    EXPECT_EQ(info->kind, kind_);
    return info->tag == orphan_id;
  }
  bool WasHeated(uint32_t frame, FrameInfo* info) noexcept override {
    EXPECT_EQ(info->kind, kind_);
    return blocks_.WasHeated(frame, info);
  }
  bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept override {
    EXPECT_EQ(info->kind, kind_);
    return blocks_.Unswizzle(frame, info, only_cooling);
  }
  void Release(uint32_t frame, FrameInfo* info) noexcept override {
    EXPECT_EQ(info->kind, kind_);
    ++release_count;
    blocks_.Release(frame, info);
  }

  uint64_t orphan_id = ~uint64_t{0};
  std::atomic<uint64_t> release_count{0};

 private:
  const FrameKind kind_;
  BlockOwner blocks_;
};

class FrameCacheTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPages = 4096;  // of each kind

  void Make(uint32_t frame_count, MemoryShare* share = nullptr,
            uint32_t max_value_count = ~uint32_t{0}) {
    ASSERT_TRUE(FrameCache::Create(FrameCache::BytesFor(frame_count), share, &cache_).ok());
    ASSERT_NE(cache_, nullptr);
    ASSERT_EQ(cache_->frame_count(), frame_count);
    cache_->SetOwner(FrameKind::kBlock, &blocks_);
    cache_->SetOwner(FrameKind::kValue, &values_, max_value_count);
  }
  void TearDown() override {
    if (cache_ == nullptr) return;
    cache_->RemoveOwner(FrameKind::kValue);
    cache_->RemoveOwner(FrameKind::kBlock);
    EXPECT_EQ(cache_->pool().used_count(), 0u);
  }

  std::atomic<uint64_t>& SwipOf(FrameKind kind, uint32_t page) {
    return swips_[kind == FrameKind::kBlock ? page : kPages + page];
  }
  static uint64_t IdOf(FrameKind kind, uint32_t page) {
    return page + (kind == FrameKind::kBlock ? 0 : kValueIds);
  }
  bool IsHot(FrameKind kind, uint32_t page) { return Swip(SwipOf(kind, page).load()).hot(); }

  // Reads the page as a lookup does, and offers it if it is in no frame. True if it was in one.
  bool Use(FrameKind kind, uint32_t page) {
    std::atomic<uint64_t>& word = SwipOf(kind, page);
    {
      EpochManager::Guard guard(cache_->epochs());
      const Swip swip(word.load(std::memory_order_acquire));
      if (swip.hot()) {
        EXPECT_EQ(std::memcmp(cache_->data(swip.number()), &page, 4), 0);
        if (swip.cooling()) BlockOwner::Heat(&word, swip);
        kind == FrameKind::kBlock ? guard.CountBlockHit() : guard.CountHit();
      } else {
        kind == FrameKind::kBlock ? guard.CountBlockMiss() : guard.CountMiss();
      }
      if (swip.hot()) {
        if (cache_->AreScarce(kind)) cache_->Note(IdOf(kind, page));
        return true;
      }
    }
    Offer(kind, page);
    return false;
  }
  void Offer(FrameKind kind, uint32_t page) {
    const uint64_t id = IdOf(kind, page);
    const uint32_t frame = cache_->TakeFor(kind, id, cache_->Note(id));
    if (frame == kNoFrame) return;
    FrameInfo& info = cache_->info(frame);
    EXPECT_EQ(info.tag, id);
    EXPECT_EQ(info.parent_frame, kNoFrame);
    info.parent = &SwipOf(kind, page);
    info.place = page;
    std::memcpy(cache_->data(frame), &page, sizeof(page));
    const bool installed = cache_->Install(frame, [&] {
      uint64_t word = page;
      return info.parent->compare_exchange_strong(word, Swip(word).In(frame).word());
    });
    if (!installed) cache_->GiveBack(frame);
  }
  void UseAll(FrameKind kind, uint32_t begin, uint32_t end, int times) {
    for (int i = 0; i < times; ++i) {
      for (uint32_t page = begin; page < end; ++page) Use(kind, page);
    }
  }
  uint32_t HotCount(FrameKind kind, uint32_t begin, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t page = begin; page < end; ++page) count += IsHot(kind, page);
    return count;
  }

  FakeMemoryShare share_;
  CountingOwner blocks_{FrameKind::kBlock};
  CountingOwner values_{FrameKind::kValue};
  std::unique_ptr<std::atomic<uint64_t>[]> swips_ = [] {
    auto swips = std::make_unique<std::atomic<uint64_t>[]>(2 * kPages);
    for (uint32_t i = 0; i < 2 * kPages; ++i) swips[i] = i % kPages;
    return swips;
  }();
  std::unique_ptr<FrameCache> cache_;
};

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

// Also while there may be more memory, but none can be had: many evicted frames are freed by one
// look at the readers.
TEST_F(FrameCacheTest, AdmissionsInExchangeShareALookAtTheReaders) {
  share_.limit_bytes = FrameCache::BytesFor(1000);
  Make(1000, &share_);
  UseAll(FrameKind::kBlock, 0, 500, 1);
  share_.refuses = true;
  UseAll(FrameKind::kBlock, 500, 1000, 1);
  uint32_t looks = 0;
  for (uint32_t page = 0; page < 200; ++page) {
    const uint64_t released_before = blocks_.release_count;
    UseAll(FrameKind::kValue, page, page + 1, 8);
    if (blocks_.release_count > released_before) ++looks;
  }
  EXPECT_GE(HotCount(FrameKind::kValue, 0, 200), 180u);
  EXPECT_GT(looks, 0u);
  EXPECT_LE(looks, 200u / 4);
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
