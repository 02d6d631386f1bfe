// Frames over a real log and index, without the store around them.
#include "engine_race/hot/value_frames.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/entry_codec.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

uint64_t NthKey(uint64_t i) { return (i + 1) << 50; }

class ValueFramesTest : public ::testing::Test {
 protected:
  // Of a frame and its description.
  static constexpr uint64_t kBytesWithDescription = 4096 + 64 + 4 + 64;
  // Never used: the index is flat.
  BlockLookup lookup_;
  ValueFramesTest() {
    Options options;
    options.bucket_count = 4;
    options.file_count = 2;
    options.bucket_capacity_records = 1 << 16;
    options.build_thread_count = 1;
    EXPECT_TRUE(BucketLog::Open(options, dir_.path(), &log_).ok());
    options_ = options;
  }

  // Writes version 1 of `key_count` keys.
  void Fill(uint64_t key_count) {
    for (uint64_t i = 0; i < key_count; ++i) Write(NthKey(i), 1);
    ASSERT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
  }
  void Make(uint32_t frame_count, uint64_t max_value_bytes = ~uint64_t{0}) {
    ASSERT_TRUE(l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count), nullptr, &cache_, {},
                                       l1::FrameCache::kBlockBytes, &index_->epochs())
                    .ok());
    ASSERT_NE(cache_, nullptr);
    ASSERT_TRUE(
        ValueFrames::Create(index_.get(), cache_.get(), kValueBytes, max_value_bytes, &frames_)
            .ok());
  }
  void Write(uint64_t key, uint64_t version) {
    ASSERT_TRUE(log_->Append(key, ValueOf(key, version).data()).ok());
  }

  // Reads as the engine does: from a frame, or from the log, and then offers the value. Returns the
  // version; 0 for a key that does not exist.
  uint64_t Read(uint64_t key, bool* hot) {
    std::string value;
    ValueRef ref;
    BlockLookup lookup;
    *hot = false;
    const Status status = frames_->Find(
        key, &ref, hot, &lookup, [&](const char* found) { value.assign(found, kValueBytes); });
    if (status.code() == Code::kNotFound) return 0;
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!*hot) {
      value.resize(kValueBytes);
      alignas(kIoAlignment) char buffer[kValueBytes];
      EXPECT_TRUE(
          log_->reader().ReadValue(log_->geometry().BucketOf(key), ref.slot(), buffer).ok());
      value.assign(buffer, kValueBytes);
      frames_->Offer(key, ref, buffer);
    }
    uint64_t version = 0;
    EXPECT_TRUE(ParseValue(key, value, &version)) << "wrong bytes under key " << key;
    return version;
  }
  bool IsHot(uint64_t key) {
    ValueRef ref;
    const l1::EpochManager::Guard guard(index_->epochs());
    return index_->FindHot(key, &ref, &lookup_).ok() && ref.hot();
  }
  void ReadTimes(uint64_t key, int times) {
    bool hot;
    for (int i = 0; i < times; ++i) EXPECT_NE(Read(key, &hot), 0u);
  }
  uint64_t HotCount(uint64_t key_count) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < key_count; ++i) count += IsHot(NthKey(i));
    return count;
  }

  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<l1::FrameCache> cache_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<ValueFrames> frames_;
};

TEST_F(ValueFramesTest, WhatIsReadOnceTakesAFreeFrame) {
  Fill(10);
  Make(4);
  bool hot;
  EXPECT_EQ(Read(NthKey(3), &hot), 1u);
  EXPECT_FALSE(hot);
  EXPECT_TRUE(IsHot(NthKey(3)));
  EXPECT_EQ(Read(NthKey(3), &hot), 1u);
  EXPECT_TRUE(hot);
  const l1::EpochManager::Counts counts = cache_->epochs().TakeCounts();
  EXPECT_EQ(counts.value_hits, 1u);
  EXPECT_EQ(counts.value_misses, 1u);
  EXPECT_EQ(cache_->pool().used_count(l1::FrameKind::kValue), 1u);
  EXPECT_EQ(cache_->admission_count(l1::FrameKind::kValue), 1u);
  EXPECT_EQ(cache_->pool().eviction_count(l1::FrameKind::kValue), 0u);
  // A lookup for readers outside the epoch still gives a slot.
  ValueRef ref;
  ASSERT_TRUE(index_->Find(NthKey(3), &ref).ok());
  EXPECT_FALSE(ref.hot());
  EXPECT_EQ(frames_->Find(77, &ref, &hot, &lookup_, [](const char*) {}).code(), Code::kNotFound);
}

TEST_F(ValueFramesTest, NoRoomForAFrameIsNoFrames) {
  Fill(1);
  Make(1, kBytesWithDescription - 1);
  EXPECT_EQ(frames_, nullptr);
  Make(1, kBytesWithDescription);
  ASSERT_NE(frames_, nullptr);
  ReadTimes(NthKey(0), 3);
  EXPECT_TRUE(IsHot(NthKey(0)));
  EXPECT_LE(cache_->memory_bytes(), l1::FrameCache::BytesFor(1));
}

TEST_F(ValueFramesTest, OneFrameGoesToWhatIsReadMost) {
  Fill(10);
  Make(1);
  ReadTimes(NthKey(0), 2);
  EXPECT_TRUE(IsHot(NthKey(0)));
  // A value that is read only as often as the victim is not admitted.
  ReadTimes(NthKey(1), 2);
  EXPECT_TRUE(IsHot(NthKey(0)));
  ReadTimes(NthKey(1), 4);
  EXPECT_TRUE(IsHot(NthKey(1)));
  EXPECT_FALSE(IsHot(NthKey(0)));
  EXPECT_EQ(cache_->pool().eviction_count(l1::FrameKind::kValue), 1u);
}

TEST_F(ValueFramesTest, AWriteIsSeenAtOnceAndItsFrameGoes) {
  Fill(40);
  Make(16);
  // Reads from frames are noted once few frames are left.
  for (uint64_t i = 0; i < 16; ++i) ReadTimes(NthKey(i), 2);
  for (uint64_t i = 0; i < 16; ++i) ReadTimes(NthKey(i), 20);
  ASSERT_EQ(HotCount(40), 16u);
  Write(NthKey(5), 2);
  ASSERT_TRUE(log_->Append(NthKey(6), nullptr).ok());
  EXPECT_EQ(HotCount(40), 14u);
  bool hot;
  EXPECT_EQ(Read(NthKey(5), &hot), 2u);
  EXPECT_FALSE(hot);
  EXPECT_EQ(Read(NthKey(6), &hot), 0u);
  // No key can be read more often than the others. But an orphan is evicted, even if its key is
  // read as often.
  for (int round = 0; round < 60; ++round) {
    for (uint64_t i = 20; i < 30; ++i) ReadTimes(NthKey(i), 1);
    ReadTimes(NthKey(5), 1);
  }
  for (uint64_t i = 0; i < 16; ++i) {
    if (i == 5 || i == 6) continue;
    EXPECT_TRUE(IsHot(NthKey(i))) << i;
  }
  EXPECT_EQ(HotCount(40), 16u);
  EXPECT_EQ(cache_->pool().eviction_count(l1::FrameKind::kValue), 2u);
}

// A value that was read before a write must not be admitted for the record of that write.
TEST_F(ValueFramesTest, AnOfferThatComesLateIsRefused) {
  Fill(10);
  Make(4);
  const uint64_t key = NthKey(2);
  ValueRef ref;
  ASSERT_TRUE(index_->Find(key, &ref).ok());
  const std::string old = ValueOf(key, 1);
  Write(key, 2);
  for (int i = 0; i < 5; ++i) frames_->Offer(key, ref, old.data());
  EXPECT_EQ(cache_->admission_count(l1::FrameKind::kValue), 0u);
  bool hot;
  EXPECT_EQ(Read(key, &hot), 2u);
  // The frame of the refused value was given back.
  for (uint64_t i = 3; i < 7; ++i) ReadTimes(NthKey(i), 9);
  EXPECT_GE(HotCount(10), 4u);
}

TEST_F(ValueFramesTest, TheSecondOfTwoOffersIsRefused) {
  Fill(10);
  Make(4);
  const uint64_t key = NthKey(2);
  ValueRef ref;
  ASSERT_TRUE(index_->Find(key, &ref).ok());
  const std::string value = ValueOf(key, 1);
  for (int i = 0; i < 5; ++i) frames_->Offer(key, ref, value.data());
  EXPECT_EQ(cache_->admission_count(l1::FrameKind::kValue), 1u);
  EXPECT_EQ(cache_->pool().used_count(l1::FrameKind::kValue), 1u);
}

TEST_F(ValueFramesTest, WhatDoesNotMatchItsChecksumIsRefused) {
  Fill(10);
  Make(4);
  ValueRef ref;
  ASSERT_TRUE(index_->Find(NthKey(2), &ref).ok());
  std::string damaged = ValueOf(NthKey(2), 1);
  damaged[1000] ^= 1;
  for (int i = 0; i < 5; ++i) frames_->Offer(NthKey(2), ref, damaged.data());
  EXPECT_FALSE(IsHot(NthKey(2)));
  EXPECT_EQ(cache_->pool().used_count(l1::FrameKind::kValue), 0u);
}

TEST_F(ValueFramesTest, AViewSeesTheOldValueWhileItIsHot) {
  Fill(10);
  Make(4);
  const uint64_t key = NthKey(2);
  ReadTimes(key, 3);
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  Write(key, 2);
  const auto old_version = [&] {
    ValueRef ref;
    bool hot = false;
    std::string value;
    const Status status = frames_->Find(
        key, &ref, &hot, &lookup_, [&](const char* found) { value.assign(found, kValueBytes); }, {},
        view.version);
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (!hot) {
      alignas(kIoAlignment) char buffer[kValueBytes];
      EXPECT_TRUE(
          log_->reader().ReadValue(log_->geometry().BucketOf(key), ref.slot(), buffer).ok());
      value.assign(buffer, kValueBytes);
    }
    uint64_t version = 0;
    EXPECT_TRUE(ParseValue(key, value, &version));
    return version;
  };
  EXPECT_EQ(old_version(), 1u);
  bool hot;
  EXPECT_EQ(Read(key, &hot), 2u);
  ReadTimes(key, 5);
  EXPECT_EQ(old_version(), 1u);
  cache_->SetLimit(0);
  EXPECT_EQ(old_version(), 1u);
  EXPECT_EQ(Read(key, &hot), 2u);
  EXPECT_FALSE(hot);
  index_->views().Release(&view);
}

TEST_F(ValueFramesTest, LimitsAreKeptDownToNothing) {
  Fill(64);
  Make(32);
  // All but the reserve.
  for (uint64_t i = 0; i < 32; ++i) ReadTimes(NthKey(i), 4);
  EXPECT_EQ(HotCount(64), 31u);
  const uint64_t full_bytes = cache_->memory_bytes();
  EXPECT_LE(full_bytes, l1::FrameCache::BytesFor(32));
  for (const uint32_t count : {20u, 1u, 0u}) {
    const uint64_t limit_bytes = l1::FrameCache::BytesFor(32) - uint64_t{32 - count} * kValueBytes;
    cache_->SetLimit(limit_bytes);
    // A frame that was free may be among those that are left.
    EXPECT_LE(HotCount(64), count);
    EXPECT_GE(HotCount(64) + 1, count);
    EXPECT_LE(cache_->pool().used_count(l1::FrameKind::kValue), count);
    EXPECT_LE(cache_->memory_bytes(), limit_bytes);
    for (uint64_t i = 0; i < 64; ++i) ReadTimes(NthKey(i), 3);
    EXPECT_LE(HotCount(64), count);
  }
  cache_->SetLimit(0);
  ReadTimes(NthKey(1), 5);
  cache_->SetLimit(l1::FrameCache::BytesFor(32));
  // All but the reserve.
  for (uint64_t i = 0; i < 32; ++i) ReadTimes(NthKey(i), 4);
  EXPECT_EQ(HotCount(64), 31u);
}

TEST_F(ValueFramesTest, NothingIsHotWhenTheFramesHaveGone) {
  Fill(10);
  Make(8);
  for (uint64_t i = 0; i < 8; ++i) ReadTimes(NthKey(i), 3);
  EXPECT_EQ(HotCount(10), 8u);
  frames_.reset();
  EXPECT_EQ(HotCount(10), 0u);
  Make(8);
  ReadTimes(NthKey(9), 3);
  EXPECT_EQ(HotCount(10), 1u);
}

// Reads each of very many keys once: hot values are not evicted.
TEST_F(ValueFramesTest, APassOverEverythingWashesNothingOut) {
  constexpr uint64_t kKeys = 2000;
  Fill(kKeys);
  Make(100);
  for (int round = 0; round < 10; ++round) {
    for (uint64_t i = 0; i < 100; ++i) ReadTimes(NthKey(i), 1);
  }
  const uint64_t before = HotCount(100);
  EXPECT_GE(before, 95u);
  const uint64_t admissions = cache_->admission_count(l1::FrameKind::kValue);
  for (uint64_t i = 100; i < kKeys; ++i) ReadTimes(NthKey(i), 1);
  EXPECT_GE(HotCount(100), before * 9 / 10);
  EXPECT_LE(cache_->admission_count(l1::FrameKind::kValue) - admissions, 40u);
  // Keys that are read from then on are admitted in the end.
  for (int round = 0; round < 60; ++round) {
    for (uint64_t i = 500; i < 600; ++i) ReadTimes(NthKey(i), 1);
  }
  uint64_t hot = 0;
  for (uint64_t i = 500; i < 600; ++i) hot += IsHot(NthKey(i));
  EXPECT_GE(hot, 80u);
}

TEST_F(ValueFramesTest, EvictionAheadLeavesTheReserve) {
  Fill(400);
  Make(128);
  for (uint64_t i = 0; i < 124; ++i) ReadTimes(NthKey(i), 3);
  EXPECT_EQ(cache_->pool().used_count(l1::FrameKind::kValue), 124u);
  // Admissions use the reserve while evicted frames wait for readers.
  for (uint64_t i = 200; i < 203; ++i) ReadTimes(NthKey(i), 8);
  EXPECT_TRUE(cache_->RunsLow());
  EXPECT_FALSE(cache_->EvictSome());
  EXPECT_FALSE(cache_->RunsLow());
  EXPECT_EQ(cache_->pool().used_count(l1::FrameKind::kValue), 124u);
}

// If use() throws, the reader still leaves the epoch, and frames can be used again.
TEST_F(ValueFramesTest, AThrowingUseLeavesTheEpoch) {
  Fill(10);
  Make(1);
  ReadTimes(NthKey(0), 3);
  ValueRef ref;
  bool hot = false;
  const Status status = Guarded([&] {
    return frames_->Find(NthKey(0), &ref, &hot, &lookup_,
                         [](const char*) { throw std::bad_alloc(); });
  });
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  ReadTimes(NthKey(1), 8);
  EXPECT_TRUE(IsHot(NthKey(1)));
}

// Readers, writers, deleters and a changing limit, over few frames. A value that was read is never
// older than what was acknowledged before the read began. Every byte is checked.
TEST_F(ValueFramesTest, ReadersBesideWritersBesideEviction) {
  constexpr uint64_t kKeys = 64;
  Fill(kKeys);
  Make(24);
  std::vector<std::atomic<uint64_t>> written(kKeys);
  for (std::atomic<uint64_t>& version : written) version = 1;
  std::atomic<bool> stop{false};
  const uint64_t reads = Sized(60000, 8000);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (uint64_t i = 0; i < reads; ++i) {
        const uint64_t n = random() % 2 == 0 ? random() % kKeys : random() % 16;
        const uint64_t least = written[n].load(std::memory_order_acquire);
        bool hot;
        const uint64_t got = Read(NthKey(n), &hot);
        ASSERT_GE(got, least) << "key " << n << (hot ? " hot" : " cold");
      }
    });
  }
  std::thread writer([&] {
    std::mt19937_64 random(77);
    for (uint64_t version = 2; !stop.load() && version < 20000; ++version) {
      const uint64_t n = random() % kKeys;
      Write(NthKey(n), version);
      written[n].store(version, std::memory_order_release);
      if (version % 4 == 0) std::this_thread::yield();
    }
  });
  std::thread resizer([&] {
    std::mt19937_64 random(78);
    while (!stop.load()) {
      cache_->SetLimit(l1::FrameCache::BytesFor(24) - random() % 25 * kValueBytes);
      cache_->EvictSome();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  writer.join();
  resizer.join();
  EXPECT_GT(cache_->epochs().TakeCounts().value_hits, 0u);
  EXPECT_GT(cache_->admission_count(l1::FrameKind::kValue), 0u);
  frames_.reset();
  EXPECT_EQ(HotCount(kKeys), 0u);
}

}  // namespace
}  // namespace engine_race::test
