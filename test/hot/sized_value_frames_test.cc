// Hot values of other sizes than a block's: in a cache of their own, beside that of blocks.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/task/point_reader.h"
#include "test/fake_memory_share.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint32_t kBlockFrames = 64;

class SizedValueFramesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  SizedValueFramesTest() {
    options_.value_bytes = GetParam();
    options_.bucket_count = options_.file_count = 1;
    options_.value_group_bytes = 4096;
    options_.index_idle_ms = 0;
    EXPECT_TRUE(BucketLog::Open(options_, dir_.path(), &log_).ok());
    record_count_ = value_bytes() > 64 * 1024 ? 12 : 520;
    for (uint64_t i = 0; i < record_count_; ++i) Write(i, 1);
    logged_count_ = log_->LoggedValueWatermark(0);
    EXPECT_GE(logged_count_, 10u);
  }
  ~SizedValueFramesTest() override { frames_.reset(); }

  // Of a frame: the least multiple of a cache line.
  uint64_t frame_bytes() const { return (uint64_t{value_bytes()} + 63) / 64 * 64; }
  uint32_t value_bytes() const { return GetParam(); }
  void Write(uint64_t i, uint64_t version) {
    ASSERT_TRUE(log_->Append(i << 50, ValueOf(i, version, value_bytes()).data()).ok());
  }
  void MakeIndex(uint32_t block_frame_count = kBlockFrames) {
    ASSERT_TRUE(
        l1::FrameCache::Create(l1::FrameCache::BytesFor(block_frame_count), nullptr, &blocks_)
            .ok());
    const Status built = Index::Build(log_.get(), options_, &index_, blocks_.get());
    ASSERT_TRUE(built.ok()) << built.ToString();
  }
  void MakeValues(uint32_t frame_count, MemoryShare* share = nullptr) {
    ASSERT_TRUE(l1::FrameCache::Create(l1::FrameCache::BytesFor(frame_count, frame_bytes()), share,
                                       &values_, {}, frame_bytes(), &blocks_->epochs())
                    .ok());
    ASSERT_NE(values_, nullptr);
    ASSERT_EQ(values_->frame_count(), frame_count);
    ASSERT_TRUE(
        ValueFrames::Create(index_.get(), values_.get(), value_bytes(), ~uint64_t{0}, &frames_)
            .ok());
    reader_ = std::make_unique<PointReader>(*log_, *index_, frames_.get(), true);
  }
  // The first `count` values, `times` times each.
  void Read(uint64_t count, int times = 1) {
    std::string value;
    for (int t = 0; t < times; ++t) {
      for (uint64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(reader_->Read(i << 50, &value).ok()) << i;
        ASSERT_TRUE(value == ValueOf(i, 1, value_bytes())) << i;
      }
    }
  }
  bool IsHot(uint64_t i) {
    ValueRef ref;
    BlockLookup lookup;
    const l1::EpochManager::Guard guard(blocks_->epochs());
    return index_->FindHot(i << 50, &ref, &lookup).ok() && ref.hot();
  }
  uint64_t HotCount(uint64_t count) {
    uint64_t hot = 0;
    for (uint64_t i = 0; i < count; ++i) hot += IsHot(i);
    return hot;
  }
  uint64_t value_count() const { return values_->pool().used_count(l1::FrameKind::kValue); }

  TempDir dir_{FastParent()};
  Options options_;
  uint64_t record_count_ = 0;
  uint64_t logged_count_ = 0;
  std::unique_ptr<BucketLog> log_;
  FakeMemoryShare share_;
  std::unique_ptr<l1::FrameCache> blocks_;
  std::unique_ptr<l1::FrameCache> values_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<ValueFrames> frames_;
  std::unique_ptr<PointReader> reader_;
};

TEST_P(SizedValueFramesTest, AValueThatWasReadIsInAFrame) {
  MakeIndex();
  MakeValues(16);
  EXPECT_EQ(ValueFrames::FrameBytesFor(value_bytes()), frame_bytes());
  Read(10, 2);
  EXPECT_EQ(HotCount(10), 10u);
  EXPECT_EQ(value_count(), 10u);
  EXPECT_EQ(blocks_->pool().used_count(l1::FrameKind::kValue), 0u);
  EXPECT_EQ(blocks_->epochs().TakeCounts().value_hits, 10u);
  Read(record_count_, 1);
  EXPECT_LE(values_->memory_bytes(), l1::FrameCache::BytesFor(16, frame_bytes()));
  frames_.reset();
  EXPECT_EQ(HotCount(record_count_), 0u);
}

TEST_P(SizedValueFramesTest, AWriteIsSeenAtOnceAndAViewSeesTheOldValue) {
  MakeIndex();
  MakeValues(16);
  Read(10, 2);
  ASSERT_TRUE(IsHot(3));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  Write(3, 2);
  std::string value;
  ASSERT_TRUE(reader_->Read(uint64_t{3} << 50, &value).ok());
  EXPECT_TRUE(value == ValueOf(3, 2, value_bytes()));
  ASSERT_TRUE(reader_->Read(uint64_t{3} << 50, &value, view.version).ok());
  EXPECT_TRUE(value == ValueOf(3, 1, value_bytes()));
  ViewRegistry::Release(&view);
}

TEST_P(SizedValueFramesTest, ALimitGivesMemoryBack) {
  MakeIndex();
  MakeValues(10);
  Read(10, 2);
  ASSERT_EQ(value_count(), 10u);
  for (const uint32_t count : {7, 3, 0}) {
    values_->SetLimit(values_->BytesInUse(count));
    EXPECT_EQ(value_count(), count);
    EXPECT_EQ(HotCount(10), count);
    EXPECT_LE(values_->memory_bytes(), values_->BytesInUse(count));
    for (uint64_t i = 0; i < 10; ++i) {
      std::string value;
      ASSERT_TRUE(reader_->Read(i << 50, &value).ok());
      ASSERT_TRUE(value == ValueOf(i, 1, value_bytes()));
    }
  }
  values_->SetLimit(values_->BytesInUse(10));
  Read(10, 1);
  EXPECT_EQ(HotCount(10), 10u);
}

TEST_P(SizedValueFramesTest, FramesAreBookedAFewAtATime) {
  MakeIndex();
  share_.limit_bytes = 64 * kMiB;
  MakeValues(10, &share_);
  EXPECT_EQ(share_.booked_bytes, values_->BytesInUse(0));
  Read(1);
  ASSERT_EQ(value_count(), 1u);
  // A quarter of a MiB, or one frame, or all.
  const uint64_t step = std::max<uint64_t>(kMiB / 4 / frame_bytes(), 1);
  EXPECT_EQ(share_.booked_bytes, values_->BytesInUse(std::min<uint64_t>(step, 10)));
  Read(10, 3);
  EXPECT_EQ(share_.booked_bytes, values_->BytesInUse(10));
  EXPECT_EQ(value_count(), 10u);
  values_->ShrinkTo(values_->BytesInUse(5));
  EXPECT_LE(share_.booked_bytes, values_->BytesInUse(5));
  EXPECT_LE(value_count(), 5u);
  EXPECT_LE(values_->memory_bytes(), share_.booked_bytes);
  frames_.reset();
  values_.reset();
  EXPECT_EQ(share_.booked_bytes, 0u);
}

TEST_P(SizedValueFramesTest, DescriptionsTakeNoMoreThanAQuarter) {
  MakeIndex();
  for (const uint64_t max_bytes : {2 * kMiB, 32 * kMiB}) {
    ASSERT_TRUE(
        l1::FrameCache::Create(max_bytes, nullptr, &values_, {}, frame_bytes(), &blocks_->epochs())
            .ok());
    ASSERT_NE(values_, nullptr);
    const uint32_t count = values_->frame_count();
    EXPECT_LE(values_->BytesInUse(count), max_bytes);
    // Beside readers' lines and the least size of the sketch.
    EXPECT_LE(values_->BytesInUse(0), max_bytes / 4 + kMiB / 16);
    const bool more_would_fit = values_->BytesInUse(count + 1) + 132 <= max_bytes;
    EXPECT_EQ(more_would_fit, uint64_t{132} * (count + 1) > max_bytes / 4) << count;
  }
}

// The index is in blocks, of which few have frames. They come and go beside the values that are
// reached through them.
TEST_P(SizedValueFramesTest, ReadersBesideWritersBesideEvictionOfBlocks) {
  options_.index_memory_bytes = 0;
  MakeIndex(/*block_frame_count=*/3);
  MakeValues(8);
  const bool has_many_reads = value_bytes() <= 64 * 1024;
  const uint64_t least_reads = has_many_reads ? 5000 : 200;
  std::atomic<uint64_t> read_count{0};
  std::atomic<bool> ends{false};
  std::vector<std::atomic<uint64_t>> newest(record_count_);
  for (std::atomic<uint64_t>& version : newest) version = 1;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::string value;
      while (!ends) {
        const uint64_t i = random() % (random() % 2 == 0 ? 6 : record_count_);
        const uint64_t least = newest[i];
        const Status status = reader_->Read(i << 50, &value);
        ASSERT_TRUE(status.ok()) << status.ToString();
        bool found = false;
        for (uint64_t v = least, most = newest[i] + 1; v <= most && !found; ++v) {
          found = value == ValueOf(i, v, value_bytes());
        }
        ASSERT_TRUE(found) << i;
        ++read_count;
      }
    });
  }
  // Few reads of large values may miss all of them. The others go on until some have not: that is a
  // matter of when the threads run.
  const auto has_seen_all = [&] {
    if (!has_many_reads) return true;
    const auto counts = blocks_->epochs().TakeCounts();
    return counts.value_hits > 0 && counts.block_hits > 0 &&
           values_->pool().eviction_count(l1::FrameKind::kValue) > 0;
  };
  const auto goes_on = [&] {
    return read_count < least_reads || (read_count < 1000 * least_reads && !has_seen_all());
  };
  std::mt19937_64 random(7);
  for (int round = 0; goes_on() && !HasFailure(); ++round) {
    const uint64_t i = random() % record_count_;
    if (round % 8 == 0 && round < 800) {
      Write(i, newest[i] + 1);
      ++newest[i];
    }
    values_->SetLimit(values_->BytesInUse(static_cast<uint32_t>(random() % 9)));
    std::this_thread::yield();
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(has_seen_all());
}

INSTANTIATE_TEST_SUITE_P(Sizes, SizedValueFramesTest, ::testing::ValuesIn(kValueSizes));

}  // namespace
}  // namespace engine_race::test
