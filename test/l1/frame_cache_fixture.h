// A cache of blocks and values that compete for frames, without the index and the log around them.
#ifndef TEST_L1_FRAME_CACHE_FIXTURE_H_
#define TEST_L1_FRAME_CACHE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/frame_cache.h"
#include "test/fake_memory_share.h"
#include "test/test_util.h"

namespace engine_race::test {

using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameCache;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FrameOwner;
using l1::kNoFrame;

inline constexpr uint64_t kValueIds = uint64_t{1} << 32;

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

  // Values that are admitted, each in exchange, while few admissions free frames.
  void ExpectFewLooks(uint32_t begin, uint32_t end) {
    uint32_t looks = 0;
    for (uint32_t page = begin; page < end; ++page) {
      const uint64_t released_before = blocks_.release_count + values_.release_count;
      UseAll(FrameKind::kValue, page, page + 1, 8);
      if (blocks_.release_count + values_.release_count > released_before) ++looks;
    }
    EXPECT_GE(HotCount(FrameKind::kValue, begin, end), (end - begin) * 9 / 10);
    EXPECT_GT(looks, 0u);
    EXPECT_LE(looks, (end - begin) / 4);
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

}  // namespace engine_race::test

#endif  // TEST_L1_FRAME_CACHE_FIXTURE_H_
