// Frames that book their memory from a share as they are used.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/hot/value_frames.h"
#include "engine_race/log/bucket_log.h"
#include "test/fake_memory_share.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

class ValueFramesShareTest : public ::testing::Test {
 protected:
  // Of a frame and its description.
  static constexpr uint64_t kBytesWithDescription = 4096 + 64 + 4 + 64;
  // Never used: the index is flat.
  BlockLookup lookup_;
  static constexpr uint32_t kFrames = 200;

  ValueFramesShareTest() {
    Options options;
    options.bucket_count = 4;
    options.file_count = 2;
    options.bucket_capacity_records = 1 << 16;
    EXPECT_TRUE(BucketLog::Open(options, dir_.path(), &log_).ok());
    for (uint64_t i = 0; i < 2 * kFrames; ++i) {
      EXPECT_TRUE(log_->Append(i << 50, ValueOf(i << 50, 1).data()).ok());
    }
    EXPECT_TRUE(Index::Build(log_.get(), options, &index_).ok());
  }
  // Room for at most kFrames frames, and for `now` of them at present.
  void Make(uint32_t now) {
    share_.limit_bytes = BytesFor(now);
    MakeFrames(kFrames);
  }
  void MakeFrames(uint32_t frame_count, uint64_t max_value_bytes = ~uint64_t{0}) {
    const Status made =
        l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count), &share_, &cache_, {},
                               l1::FrameCache::kBlockBytes, &index_->epochs());
    ASSERT_TRUE(made.ok()) << made.ToString();
    ASSERT_NE(cache_, nullptr);
    ASSERT_TRUE(
        ValueFrames::Create(index_.get(), cache_.get(), kValueBytes, max_value_bytes, &frames_)
            .ok());
    ASSERT_NE(frames_, nullptr);
  }
  static uint64_t BytesFor(uint32_t count) {
    return l1::FrameCache::BytesFor(kFrames) - uint64_t{kFrames - count} * kValueBytes;
  }
  void Offer(uint64_t begin, uint64_t end, int times) {
    for (int t = 0; t < times; ++t) {
      for (uint64_t i = begin; i < end; ++i) {
        ValueRef ref;
        bool hot = false;
        ASSERT_TRUE(frames_->Find(i << 50, &ref, &hot, &lookup_, [](const char*) {}).ok());
        if (!hot) frames_->Offer(i << 50, ref, ValueOf(i << 50, 1).data());
      }
      ASSERT_LE(cache_->memory_bytes(), share_.booked_bytes);
    }
  }
  uint64_t HotCount(uint64_t begin, uint64_t end) {
    uint64_t count = 0;
    for (uint64_t i = begin; i < end; ++i) {
      const l1::EpochManager::Guard guard(cache_->epochs());
      ValueRef ref;
      count += index_->FindHot(i << 50, &ref, &lookup_).ok() && ref.hot();
    }
    return count;
  }
  uint64_t eviction_count() const { return cache_->pool().eviction_count(l1::FrameKind::kValue); }
  uint64_t value_count() const { return cache_->pool().used_count(l1::FrameKind::kValue); }

  TempDir dir_{FastParent()};
  std::unique_ptr<BucketLog> log_;
  FakeMemoryShare share_;
  std::unique_ptr<l1::FrameCache> cache_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<ValueFrames> frames_;
};

TEST_F(ValueFramesShareTest, WhatIsNotUsedIsNotBooked) {
  Make(kFrames);
  EXPECT_EQ(share_.booked_bytes, BytesFor(0));
  Offer(0, 40, 1);
  EXPECT_EQ(value_count(), 40u);
  EXPECT_EQ(share_.booked_bytes, BytesFor(64));
  EXPECT_EQ(cache_->limit_bytes(), BytesFor(kFrames));
  Offer(0, 2 * kFrames, 4);
  EXPECT_EQ(share_.booked_bytes, BytesFor(kFrames));
  EXPECT_GE(value_count(), 190u);
  frames_.reset();
  cache_.reset();
  EXPECT_EQ(share_.booked_bytes, 0u);
}

TEST_F(ValueFramesShareTest, NothingIsWantedBeforeAllIsUsed) {
  Make(100);
  // All but the reserve.
  Offer(0, 97, 2);
  EXPECT_EQ(value_count(), 97u);
  EXPECT_EQ(share_.wants, 0u);
  EXPECT_EQ(share_.booked_bytes, BytesFor(100));
  // A value that is read often would be kept if there were a frame; one that is read once would
  // not.
  Offer(100, 150, 1);
  EXPECT_EQ(share_.wants, 0u);
  Offer(100, 150, 1);
  EXPECT_EQ(share_.wants, 50u);
  // The limit may have risen in the meantime.
  share_.limit_bytes = BytesFor(120);
  Offer(100, 150, 1);
  EXPECT_EQ(share_.booked_bytes, BytesFor(120));
  EXPECT_GE(value_count(), 115u);
  share_.yielded_bytes = 10 * kValueBytes;
  Offer(100, 200, 4);
  EXPECT_EQ(share_.booked_bytes, BytesFor(kFrames));
  EXPECT_GE(value_count(), 190u);
}

// A value that was read once takes memory that is free, and no other. It yields to a value that is
// read twice.
TEST_F(ValueFramesShareTest, WhatWasReadOnceIsAStopgap) {
  Make(64);
  Offer(0, 64, 1);
  const uint64_t count = value_count();
  EXPECT_EQ(count, 62u) << "all but the reserve";
  Offer(64, 2 * kFrames, 1);
  EXPECT_EQ(HotCount(0, 64), count);
  EXPECT_EQ(eviction_count(), 0u);
  EXPECT_EQ(share_.wants, 0u);
  // The first of them may find out only now that the next victim is a stopgap.
  Offer(64, 64 + count, 1);
  const uint64_t evictions = eviction_count();
  EXPECT_GE(evictions, count - 3);
  EXPECT_GE(HotCount(64, 64 + count), count - 3);
  // The frames are theirs: others must be read more often by the margin.
  Offer(200, 264, 1);
  EXPECT_LE(eviction_count(), count + 1);
  // More memory serves what is read once again.
  share_.limit_bytes = BytesFor(128);
  Offer(300, 310, 3);
  Offer(310, 340, 1);
  EXPECT_EQ(HotCount(300, 340), 40u);
}

TEST_F(ValueFramesShareTest, WalksTakeNoMemoryThatOthersHaveAskedFor) {
  Make(kFrames);
  const auto leave = [&](uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; ++i) {
      ValueRef ref;
      ASSERT_TRUE(index_->Find(i << 50, &ref, &lookup_).ok());
      (void)frames_->AdmitIfFree(i << 50, ref, ValueOf(i << 50, 1).data());
    }
  };
  leave(0, 100);
  EXPECT_EQ(HotCount(0, 100), 100u);
  cache_->ShrinkTo(BytesFor(50));
  const uint64_t booked_bytes = share_.booked_bytes;
  leave(0, kFrames);
  EXPECT_EQ(share_.booked_bytes, booked_bytes);
  // A read of a value is a use of memory, and walks follow.
  Offer(kFrames, kFrames + 1, 1);
  EXPECT_GT(share_.booked_bytes, booked_bytes);
  leave(0, kFrames);
  EXPECT_GE(value_count(), 190u);
}

TEST_F(ValueFramesShareTest, WhatIsGivenBackIsFree) {
  Make(kFrames);
  Offer(0, kFrames, 3);
  share_.limit_bytes = BytesFor(100);
  cache_->ShrinkTo(BytesFor(100));
  EXPECT_LE(share_.booked_bytes, BytesFor(100));
  EXPECT_GE(share_.booked_bytes, BytesFor(100 - 64));
  EXPECT_LE(cache_->memory_bytes(), share_.booked_bytes);
  EXPECT_GE(value_count(), 30u);
  cache_->ShrinkTo(BytesFor(kFrames));
  EXPECT_GE(share_.booked_bytes, BytesFor(100 - 64));
  cache_->ShrinkTo(0);
  EXPECT_EQ(share_.booked_bytes, BytesFor(0));
  EXPECT_EQ(value_count(), 0u);
  share_.limit_bytes = BytesFor(kFrames);
  Offer(0, kFrames, 3);
  EXPECT_GE(value_count(), 190u);
  EXPECT_EQ(cache_->UseCount(), cache_->epochs().TakeCounts().value_hits +
                                    cache_->admission_count(l1::FrameKind::kValue));
}

// As while an index grows: the limit falls by one frame at a time, and values that are read are
// offered.
TEST_F(ValueFramesShareTest, ALimitThatFallsSlowlyEvictsInProportion) {
  Make(kFrames);
  Offer(0, kFrames, 3);
  const uint64_t before = cache_->pool().eviction_count(l1::FrameKind::kValue);
  constexpr uint32_t kFallen = 60;
  for (uint32_t count = kFrames - 1; count >= kFrames - kFallen; --count) {
    share_.limit_bytes = BytesFor(count);
    if (share_.booked_bytes > share_.limit_bytes) cache_->ShrinkTo(share_.limit_bytes);
    Offer(0, kFrames, 1);
    ASSERT_LE(share_.booked_bytes, share_.limit_bytes);
  }
  // Values that are read as often as others may evict these too.
  EXPECT_LE(cache_->pool().eviction_count(l1::FrameKind::kValue) - before, 5 * kFallen);
  share_.limit_bytes = BytesFor(kFrames);
  Offer(0, kFrames, 3);
  EXPECT_GE(value_count(), 190u) << "a whole step is booked again";
}

TEST_F(ValueFramesShareTest, FewerFramesThanAStepGrowAgain) {
  constexpr uint32_t kFew = 40;
  share_.limit_bytes = l1::FrameCache::BytesFor(kFew);
  MakeFrames(kFew);
  Offer(0, kFew, 3);
  EXPECT_GE(value_count(), kFew - 5);
  share_.limit_bytes -= (kFew / 2) * kValueBytes;
  cache_->ShrinkTo(share_.limit_bytes);
  EXPECT_LE(value_count(), kFew / 2);
  share_.limit_bytes = l1::FrameCache::BytesFor(kFew);
  Offer(0, kFew, 3);
  EXPECT_GE(value_count(), kFew - 5);
}

// The frame of a reader inside the epoch is given back by a later call, and stays booked until
// then.
TEST_F(ValueFramesShareTest, WhatIsReadStaysBooked) {
  Make(kFrames);
  Offer(0, 100, 3);
  ValueRef ref;
  bool hot = false;
  const Status found = frames_->Find(0, &ref, &hot, &lookup_, [&](const char*) {
    cache_->ShrinkTo(0);
    EXPECT_LE(cache_->memory_bytes(), share_.booked_bytes);
    EXPECT_GT(share_.booked_bytes, BytesFor(0));
  });
  ASSERT_TRUE(found.ok() && hot);
  cache_->ShrinkTo(0);
  EXPECT_EQ(share_.booked_bytes, BytesFor(0));
}

// Values have a limit of their own, although more frames are free.
TEST_F(ValueFramesShareTest, ValuesTakeNoMoreThanTheirLimit) {
  share_.limit_bytes = BytesFor(kFrames);
  MakeFrames(kFrames, 8 * kBytesWithDescription);
  Offer(0, 8, 2);
  EXPECT_EQ(value_count(), 8u);
  Offer(0, 2 * kFrames, 3);
  EXPECT_EQ(value_count(), 8u);
  EXPECT_EQ(value_count(), 8u);
  // Others are admitted in exchange, when they are read more often.
  Offer(100, 108, 40);
  EXPECT_EQ(value_count(), 8u);
  EXPECT_GT(cache_->pool().eviction_count(l1::FrameKind::kValue), 4u);
  EXPECT_EQ(share_.booked_bytes, BytesFor(64));
}

TEST_F(ValueFramesShareTest, NoRoomToDescribeThemIsNoFrames) {
  share_.limit_bytes = BytesFor(0) - 1;
  ASSERT_TRUE(l1::FrameCache::Create(l1::FrameCache::BytesFor(kFrames), &share_, &cache_).ok());
  EXPECT_EQ(cache_, nullptr);
  EXPECT_EQ(share_.booked_bytes, 0u);
}

}  // namespace
}  // namespace engine_race::test
