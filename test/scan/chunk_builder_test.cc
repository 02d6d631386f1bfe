#include "engine_race/scan/chunk_builder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kPositions = 64;  // of a buffer

class ChunkBuilderTest : public ::testing::Test {
 protected:
  void Open(uint32_t bucket_count, uint64_t records, uint32_t value_bytes = kValueBytes) {
    store_ = std::make_unique<ScanStore>(bucket_count, FastParent(), value_bytes);
    store_->Fill(records);
    store_->OpenReader();
    context_ =
        std::make_unique<ScanContext>(*store_->log, *store_->index, store_->options, RangeTuning());
    builder_ = std::make_unique<ChunkBuilder>(context_.get());
  }

  void Build(uint64_t key, uint64_t last_wanted, uint32_t max_buffers) {
    ChunkBuilder::Request request;
    request.key = key;
    request.last_wanted = last_wanted;
    request.low = 0;
    request.high = kLastKey;
    request.max_buffers = max_buffers;
    chunk_.Recycle();
    outline_ = builder_->Plan(request);
    builder_->Build(request, outline_, &chunk_);
    ASSERT_TRUE(chunk_.collect_status.ok());
    EXPECT_LE(context_->layout.BuffersFor(chunk_.plan.position_count), 2 * outline_.buffer_count);
    EXPECT_LE(chunk_.first_key, key);
    EXPECT_GE(chunk_.last_key, key);
    // The chunk is all that lies in its range.
    auto next = store_->model.lower_bound(chunk_.first_key);
    for (const IndexEntry& entry : chunk_.entries) {
      ASSERT_NE(store_->model.end(), next);
      EXPECT_EQ(next->first, entry.key);
      ++next;
    }
    EXPECT_TRUE(next == store_->model.end() || next->first > chunk_.last_key);
    EXPECT_EQ(chunk_.entries.size(), chunk_.plan.positions.size());
  }

  std::unique_ptr<ScanStore> store_;
  std::unique_ptr<ScanContext> context_;
  std::unique_ptr<ChunkBuilder> builder_;
  ChunkBuilder::Outline outline_;
  Chunk chunk_;
};

TEST_F(ChunkBuilderTest, ABucketThatFitsIsTakenWhole) {
  Open(4, 3000);
  const Geometry& geometry = store_->log->geometry();
  Build(geometry.FirstKeyOf(1) + 12345, kLastKey, 1000);
  EXPECT_EQ(geometry.FirstKeyOf(1), chunk_.first_key);
  EXPECT_EQ(geometry.LastKeyOf(1), chunk_.last_key);
  // Read from one end to the other.
  EXPECT_LE(chunk_.plan.reads.size(), chunk_.entries.size() / kPositions + 2);
}

TEST_F(ChunkBuilderTest, APartOfABucketIsTakenAloneWhenNoMoreIsWanted) {
  Open(1, 2000);
  const uint64_t first = kLastKey / 4;
  Build(first, first + kLastKey / 8, 1000);
  EXPECT_EQ(first, chunk_.first_key);
  EXPECT_EQ(first + kLastKey / 8, chunk_.last_key);
}

TEST_F(ChunkBuilderTest, ABucketTooLargeIsCutIntoPieces) {
  Open(1, 3000);
  const uint32_t max_buffers = 10;
  uint64_t key = 0;
  uint64_t pieces = 0;
  while (true) {
    Build(key, kLastKey, max_buffers);
    EXPECT_LE(chunk_.plan.position_count, max_buffers * kPositions);
    ++pieces;
    if (chunk_.last_key == kLastKey) break;
    key = chunk_.last_key + 1;
  }
  EXPECT_GE(pieces, 5u);
}

// Each of its reads is long by itself. A smaller chunk is ready sooner, in memory that was used
// before.
TEST_F(ChunkBuilderTest, ABucketOfLongValuesIsCutIntoPieces) {
  Open(1, 40, kMiB);
  uint64_t key = 0;
  for (const size_t count : {16, 16, 8}) {
    ASSERT_NO_FATAL_FAILURE(Build(key, kLastKey, 1000));
    EXPECT_EQ(chunk_.entries.size(), count);
    EXPECT_LE(outline_.buffer_count, context_->layout.BuffersFor(chunk_.plan.position_count) + 1);
    key = chunk_.last_key + 1;
  }
  EXPECT_EQ(key, 0u) << "the last one ends behind the last key";
}

TEST_F(ChunkBuilderTest, SmallBucketsAreTakenTogether) {
  Open(4096, 6000);
  Build(0, kLastKey, 1000);
  EXPECT_GE(chunk_.entries.size(), 900u);
  EXPECT_LE(chunk_.entries.size(), 1024u);
  EXPECT_GT(chunk_.segments.size(), 500u);
}

TEST_F(ChunkBuilderTest, FewerSmallBucketsAreTakenWhereMemoryIsShort) {
  Open(4096, 6000);
  const uint32_t max_buffers = 10;
  Build(0, kLastKey, max_buffers);
  EXPECT_GE(chunk_.entries.size(), 240u);
  EXPECT_LE(chunk_.entries.size(), 256u);
}

TEST_F(ChunkBuilderTest, AnEmptyStoreIsOneChunk) {
  Open(64, 0);
  Build(5, kLastKey, 1000);
  EXPECT_EQ(kLastKey, chunk_.last_key);
  EXPECT_EQ(0u, chunk_.plan.position_count);
}

TEST_F(ChunkBuilderTest, OneBufferStillGivesAPiece) {
  Open(1, 2000);
  Build(7, kLastKey, 1);
  EXPECT_FALSE(chunk_.entries.empty());
  EXPECT_LE(chunk_.plan.position_count, kPositions);
}

TEST_F(ChunkBuilderTest, BucketsWithoutRecordsHaveNoSegment) {
  Open(64, 2000);
  const Geometry& geometry = store_->log->geometry();
  for (uint32_t bucket = 1; bucket < 63; ++bucket) {
    const auto first = store_->model.lower_bound(geometry.FirstKeyOf(bucket));
    const auto after = store_->model.upper_bound(geometry.LastKeyOf(bucket));
    std::vector<uint64_t> keys;
    for (auto at = first; at != after; ++at) keys.push_back(at->first);
    for (const uint64_t key : keys) store_->Delete(key);
  }
  Build(0, kLastKey, 1000);
  ASSERT_GT(chunk_.last_key, geometry.LastKeyOf(1));
  ASSERT_EQ(chunk_.segments.size(), 1u);
  EXPECT_EQ(chunk_.segments[0].bucket, 0u);
}

TEST_F(ChunkBuilderTest, StillTrueUntilSomethingInItChanges) {
  Open(2, 2000);
  const Geometry& geometry = store_->log->geometry();
  Build(0, kLastKey, 1000);
  EXPECT_TRUE(builder_->StillTrue(chunk_));
  store_->Put(geometry.FirstKeyOf(1) + 1);
  EXPECT_TRUE(builder_->StillTrue(chunk_));
  store_->Put(chunk_.entries[10].key, 2);
  EXPECT_FALSE(builder_->StillTrue(chunk_));
  Build(0, kLastKey, 1000);
  EXPECT_TRUE(builder_->StillTrue(chunk_));
  store_->Delete(chunk_.entries.back().key);
  EXPECT_FALSE(builder_->StillTrue(chunk_));
  Build(0, kLastKey, 1000);
  store_->Put(1);
  EXPECT_FALSE(builder_->StillTrue(chunk_));
}

// A write acknowledged before a ticket was drawn is in every chunk cut at that ticket or later.
TEST_F(ChunkBuilderTest, TheCutIsNotLaterThanWhatWasCollected) {
  Open(1, 2000);
  const uint64_t writes = Sized(20000, 4000);
  std::vector<std::atomic<uint64_t>> ticket_of(writes);
  std::atomic<bool> done{false};
  const std::string value(kValueBytes, 'v');
  std::thread writer([&] {
    for (uint64_t i = 0; i < writes; ++i) {
      // Low keys, so that the index has collected past them when it is nearly through.
      ASSERT_TRUE(store_->log->Append(i, value.data()).ok());
      ticket_of[i] = ++context_->ticket;
    }
    done = true;
  });
  while (!done.load()) {
    chunk_.Recycle();
    ChunkBuilder::Request request;
    request.last_wanted = kLastKey;
    request.high = kLastKey;
    request.max_buffers = 4000;
    builder_->Build(request, builder_->Plan(request), &chunk_);
    std::set<uint64_t> keys;
    for (const IndexEntry& entry : chunk_.entries) keys.insert(entry.key);
    for (uint64_t i = 0; i < writes; ++i) {
      const uint64_t ticket = ticket_of[i];
      if (ticket == 0 || ticket > chunk_.cut) break;
      ASSERT_TRUE(keys.contains(i)) << i;
    }
  }
  writer.join();
}

}  // namespace
}  // namespace engine_race::test
