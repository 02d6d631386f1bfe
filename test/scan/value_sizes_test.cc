// Reading of ranges with values of other sizes than 4 KiB.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_cache.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/chunk_reader.h"
#include "engine_race/scan/window_pool.h"
#include "test/scan/value_sizes_fixture.h"

namespace engine_race::test {
namespace {

TEST_P(ValueSizesTest, ScansEqualTheModel) {
  for (const uint32_t bucket_count : {1, 8}) {
    Open(bucket_count);
    const uint64_t count = RecordCount();
    store_->Fill(count);
    for (uint64_t i = 0; i < count; i += 3) store_->Put(SpreadKey(i), 2);
    for (uint64_t i = 0; i < count; i += 5) store_->Delete(SpreadKey(i));
    store_->OpenReader();
    ExpectScanMatches(*store_);
    // From the chunks in memory, and of what was written meanwhile.
    store_->Put(SpreadKey(1), 3);
    ExpectScanMatches(*store_);
    ExpectRanges(10);
    EXPECT_TRUE(store_->messages().empty());
  }
}

// With little memory chunks are cut where their values fill it.
TEST_P(ValueSizesTest, ScansEqualTheModelInLittleMemory) {
  Open(1);
  store_->Fill(RecordCount(100'000));
  store_->OpenReader(/*budget_bytes=*/1);
  ExpectScanMatches(*store_);
  EXPECT_LE(store_->reader->memory_bytes(), 8 * kMiB);
  ExpectRanges(5);
}

TEST_P(ValueSizesTest, ScansBesideEachOtherShareChunks) {
  Open(8);
  store_->Fill(RecordCount());
  store_->OpenReader();
  RunThreads(3, [&](int) { ExpectScanMatches(*store_); });
  // But for what a scan reads alone before it joins the others.
  EXPECT_LE(store_->reader->read_bytes(), 2 * store_->live_bytes() + 16 * kMiB);
}

TEST_P(ValueSizesTest, ASecondPassReadsNothingAgain) {
  Open(8);
  store_->Fill(RecordCount());
  store_->OpenReader(256 * kMiB);
  ExpectScanMatches(*store_);
  const uint64_t first_pass = store_->reader->read_bytes();
  ExpectScanMatches(*store_);
  EXPECT_EQ(store_->reader->read_bytes(), first_pass);
}

TEST_P(ValueSizesTest, ChunksAreCutAtEitherEndUntilTheyFit) {
  Open(8);
  store_->Fill(RecordCount());
  MakeContext();
  ChunkBuilder builder(context_.get());
  std::vector<uint64_t> keys;
  for (const auto& [key, version] : store_->model) keys.push_back(key);
  const uint32_t max_positions = 3 * context_->layout.buffer_positions();
  for (const auto keep : {ChunkBuilder::Keep::kFirst, ChunkBuilder::Keep::kLast}) {
    const bool keeps_last = keep == ChunkBuilder::Keep::kLast;
    Chunk chunk;
    builder.Collect(kLastKey, static_cast<uint32_t>(keys.size()), &chunk);
    builder.PlanReads(max_positions, &chunk);
    ASSERT_EQ(chunk.entries.size(), keys.size());
    const bool fits = chunk.plan.position_count <= max_positions;
    while (builder.CutToFit(max_positions, keep, &chunk)) builder.PlanReads(max_positions, &chunk);
    const size_t left = chunk.entries.size();
    EXPECT_EQ(left == keys.size(), fits);
    EXPECT_GE(left, std::min<size_t>(context_->layout.SureRecords(max_positions), keys.size()));
    EXPECT_LE(chunk.plan.position_count, max_positions);
    EXPECT_EQ(chunk.plan.positions.size(), left);
    EXPECT_EQ(chunk.first_key, keeps_last && !fits ? keys[keys.size() - left] : 0);
    EXPECT_EQ(chunk.last_key, keeps_last || fits ? kLastKey : keys[left - 1]);
    const size_t first = keeps_last ? keys.size() - left : 0;
    for (uint32_t i = 0; i < left; ++i) {
      ASSERT_EQ(chunk.entries[i].key, keys[first + i]);
      ASSERT_EQ(chunk.SegmentOfEntry(i).bucket, store_->log->geometry().BucketOf(keys[first + i]));
    }
  }
}

class ValueSizesLoaderTest : public ValueSizesTest {
 protected:
  // One bucket whose keys lie in the order of their slots; the last few records may be staged.
  void Fill(IoBackend backend) {
    Open(1);
    count_ = RecordCount(600);
    for (uint64_t i = 0; i < count_; ++i) store_->Put(i << 32);
    MakeContext(backend);
    cache_ = std::make_unique<ChunkCache>(context_->layout);
    ASSERT_TRUE(cache_->Allocate(kBuffers, /*share=*/nullptr, Placement()).ok());
    loader_ = std::make_unique<ChunkLoader>(context_.get(), &cache_->pool());
    ASSERT_TRUE(loader_->Start().ok());
  }
  ~ValueSizesLoaderTest() override { loader_.reset(); }

  void MakeChunk(Chunk* chunk) {
    ChunkBuilder builder(context_.get());
    ChunkBuilder::Request request;
    request.last_wanted = request.high = kLastKey;
    request.max_buffers = kBuffers;
    builder.Build(request, builder.Plan(request), chunk);
    EXPECT_EQ(chunk->entries.size(), count_);
    // Buffers in another order than the positions.
    EXPECT_TRUE(cache_->TakeBuffers(context_->layout.BuffersFor(chunk->plan.position_count),
                                    &chunk->buffers));
    std::reverse(chunk->buffers.begin(), chunk->buffers.end());
    chunk->Place(context_->layout, cache_->pool().base(), chunk->buffers, /*verify=*/true);
    EXPECT_GT(chunk->reads_left, 0u);
  }
  void LoadAll(Chunk* chunk) {
    loader_->Add(chunk);
    std::vector<Chunk*> loaded;
    for (uint64_t i = 0; i < 4 * count_ && loader_->busy(); ++i) {
      loader_->Submit();
      loader_->Reap(/*poll=*/false, &loaded);
    }
    EXPECT_EQ(loaded, std::vector<Chunk*>{chunk});
  }
  uint64_t CountGood(Chunk* chunk) {
    chunk->SetReady();
    uint64_t good = 0;
    for (uint32_t i = 0; i < chunk->entries.size(); ++i) {
      chunk->Prepare(*context_, i);
      const char* const value = chunk->Value(i);
      if (value == nullptr) continue;
      EXPECT_EQ(std::string_view(value, size()), ValueOf(chunk->entries[i].key, 1, size()));
      ++good;
    }
    return good;
  }

  static constexpr uint32_t kBuffers = 256;
  uint64_t count_ = 0;
  std::unique_ptr<ChunkCache> cache_;
  std::unique_ptr<ChunkLoader> loader_;
};

TEST_P(ValueSizesLoaderTest, BlockingAndOverlappedReadsBringAllValues) {
  for (const IoBackend backend : {IoBackend::kPsync, IoBackend::kLibaio}) {
    Fill(backend);
    Chunk blocking;
    MakeChunk(&blocking);
    ChunkLoader::ReadBlocking(context_.get(), &blocking);
    EXPECT_EQ(CountGood(&blocking), count_);
    Chunk overlapped;
    MakeChunk(&overlapped);
    const uint64_t bytes_before = context_->read_bytes.load();
    EXPECT_EQ(bytes_before % kIoAlignment, 0u);
    LoadAll(&overlapped);
    EXPECT_EQ(context_->read_bytes.load(), 2 * bytes_before);
    EXPECT_FALSE(overlapped.read_failed);
    EXPECT_EQ(CountGood(&overlapped), count_);
    loader_.reset();
  }
}

// The file ends within a read: values before that are good.
TEST_P(ValueSizesLoaderTest, AShortReadBringsTheValuesThatItHas) {
  Fill(IoBackend::kLibaio);
  uint64_t logged = 0;
  while (logged < count_ && store_->log->Logged(0).Contains(logged)) ++logged;
  ASSERT_GT(logged, 8u);
  Chunk chunk;
  MakeChunk(&chunk);
  // The last byte of a value is missing.
  const uint64_t cut = logged - std::min<uint64_t>(logged, 3);
  const SlotLocation location = store_->log->slots().LocateValues(0, cut);
  const std::string path = store_->dir.Join(location.file->name());
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(location.offset + size() - 1)), 0);
  LoadAll(&chunk);
  EXPECT_TRUE(chunk.read_failed);
  EXPECT_EQ(CountGood(&chunk), count_ - (logged - cut));
  for (uint64_t slot = 0; slot < count_; ++slot) {
    const bool is_lost = slot >= cut && slot < logged;
    const auto entry = static_cast<uint32_t>(slot);
    EXPECT_EQ(chunk.Value(entry) == nullptr, is_lost) << slot;
    if (is_lost) {
      EXPECT_EQ(chunk.ErrorOf(*context_, entry).code(), Code::kIOError);
    }
  }
}

class ValueSizesReaderTest : public ValueSizesTest {
 protected:
  void Fill(uint32_t bucket_count, uint64_t count, uint64_t chunk_bytes) {
    Open(bucket_count);
    store_->Fill(count);
    MakeContext();
    coordinator_ = std::make_unique<Coordinator>(context_.get(), chunk_bytes, /*share=*/nullptr);
    pool_ = std::make_unique<WindowPool>(context_.get(), coordinator_.get(), /*window_count=*/1);
  }
  // In readings of `max_records`; how many there were.
  uint32_t ReadAll(uint32_t max_records) {
    ChunkReader reader(context_.get(), pool_.get());
    ModelVisitor visitor = Visitor();
    uint64_t first = 0;
    uint32_t count = 0;
    do {
      EXPECT_TRUE(reader.Read(first, kLastKey, kLatestVersion, max_records).ok());
      EXPECT_GT(reader.record_count(), 0u);
      EXPECT_LE(reader.record_count(), max_records);
      if (HasFailure()) return count;
      EXPECT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
      first = reader.next_key();
      ++count;
    } while (!reader.complete());
    EXPECT_TRUE(visitor.complete()) << visitor.count << ", " << visitor.bad_count;
    return count;
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<WindowPool> pool_;
};

TEST_P(ValueSizesReaderTest, ReadingsOfAnySizeReadEveryRecordOnce) {
  Fill(/*bucket_count=*/4, RecordCount(), 64 * kMiB);
  const BufferLayout& layout = context_->layout;
  for (const uint32_t max_records :
       {1U, 3U, layout.window_records(), layout.window_records() + 1, layout.walk_records()}) {
    SCOPED_TRACE(max_records);
    ReadAll(max_records);
  }
}

TEST_P(ValueSizesReaderTest, WithoutWindowsTheyGoOnWithLittleMemory) {
  Fill(/*bucket_count=*/4, RecordCount(200), /*chunk_bytes=*/1);
  ChunkReader holder(context_.get(), pool_.get());
  ASSERT_TRUE(holder.Read(0, kLastKey, kLatestVersion, 1).ok());
  const uint64_t bytes_before = pool_->memory_bytes();
  ChunkReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(0, kLastKey, kLatestVersion, 64).ok());
  EXPECT_GT(reader.record_count(), 0u);
  EXPECT_EQ(pool_->memory_bytes() - bytes_before,
            std::max<uint64_t>(16 * 1024, context_->layout.read_bytes()));
  reader.GiveBack();
  ReadAll(64);
}

// Keys of one bucket lie all over it, so that values share blocks with many that are not wanted.
TEST_P(ValueSizesReaderTest, AReadingIsCutWhereItsWindowsAreFull) {
  Fill(/*bucket_count=*/1, RecordCount(20'000), 64 * kMiB);
  ReadAll(context_->layout.walk_records());
  Windows windows;
  ASSERT_TRUE(pool_->TakeWindows(1, /*may_allocate=*/true, &windows).ok());
  ReadAll(64);
  pool_->GiveWindows(&windows);
}

TEST_P(ValueSizesReaderTest, ReadsAheadBringTheirValues) {
  Fill(/*bucket_count=*/4, RecordCount(), 64 * kMiB);
  ViewRegistry::View view;
  ASSERT_TRUE(store_->index->views().Take(&view).ok());
  // More than the window of the pool holds.
  const uint32_t each = context_->layout.window_records() + 1;
  ChunkReader reader(context_.get(), pool_.get());
  ModelVisitor visitor = Visitor();
  ASSERT_TRUE(reader.Read(0, kLastKey, view.version, each).ok());
  uint32_t ahead_count = 0;
  while (true) {
    reader.ReadAhead(each);
    ASSERT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
    if (reader.complete()) break;
    if (reader.TakeAhead(reader.next_key(), kLastKey, view.version)) {
      ++ahead_count;
    } else {
      ASSERT_TRUE(reader.Read(reader.next_key(), kLastKey, view.version, each).ok());
    }
  }
  EXPECT_TRUE(visitor.complete()) << visitor.count << ", " << visitor.bad_count;
  EXPECT_GT(ahead_count, 0u);
  reader.GiveBack();
  ViewRegistry::Release(&view);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ValueSizesTest, ::testing::ValuesIn(kValueSizes), SizeName);
INSTANTIATE_TEST_SUITE_P(Sizes, ValueSizesLoaderTest, ::testing::ValuesIn(kValueSizes), SizeName);
INSTANTIATE_TEST_SUITE_P(Sizes, ValueSizesReaderTest, ::testing::ValuesIn(kValueSizes), SizeName);

}  // namespace
}  // namespace engine_race::test
