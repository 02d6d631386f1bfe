#include "engine_race/scan/chunk_loader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/scan/chunk_builder.h"
#include "engine_race/scan/chunk_cache.h"
#include "test/faults/system_calls.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRecords = 600;
constexpr uint32_t kBufferBytes = 256 * 1024;

// Answers as many calls of one kind as it is told, on any file, with an error.
class FailSome : public SystemCallHook {
 public:
  FailSome(CallKind kind, int error, int count) : kind_(kind), error_(error), left_(count) {}
  long OnCall(SystemCall* call) override {
    if (call->kind != kind_ || left_.fetch_sub(1) <= 0) return call->Proceed();
    errno = error_;
    return -1;
  }

 private:
  const CallKind kind_;
  const int error_;
  std::atomic<int> left_;
};

class ChunkLoaderTest : public ::testing::Test {
 protected:
  // One bucket whose keys lie in the order of their slots; the last few records are staged.
  void Open(IoBackend backend) {
    store_ = std::make_unique<ScanStore>(1);
    for (uint64_t i = 0; i < kRecords; ++i) store_->Put(i << 32);
    store_->OpenReader();
    Options options = store_->options;
    options.io_backend = backend;
    context_ = std::make_unique<ScanContext>(*store_->log, *store_->index, options, RangeTuning());
    cache_ = std::make_unique<ChunkCache>(BufferLayout());
    ASSERT_TRUE(cache_->Allocate(kBuffers, /*share=*/nullptr, Placement()).ok());
    loader_ = std::make_unique<ChunkLoader>(context_.get(), &cache_->pool());
  }
  ~ChunkLoaderTest() override { loader_.reset(); }

  // Placed, with reads, of records [first, last].
  std::unique_ptr<Chunk> MakeChunk(uint64_t first, uint64_t last) {
    ChunkBuilder builder(context_.get());
    ChunkBuilder::Request request;
    request.key = request.low = first << 32;
    request.last_wanted = request.high = last << 32;
    request.max_buffers = kBuffers;
    auto chunk = std::make_unique<Chunk>();
    builder.Build(request, builder.Plan(request), chunk.get());
    EXPECT_TRUE(cache_->TakeBuffers(context_->layout.BuffersFor(chunk->plan.position_count),
                                    &chunk->buffers));
    chunk->Place(context_->layout, cache_->pool().base(), chunk->buffers, /*verify=*/true);
    EXPECT_GT(chunk->reads_left, 0u);
    return chunk;
  }
  // Until nothing is to be read any more; at most as often as there are reads.
  void LoadAll(std::vector<Chunk*>* loaded) {
    for (uint64_t i = 0; i < 4 * kRecords && loader_->busy(); ++i) {
      loader_->Submit();
      loader_->Reap(/*poll=*/false, loaded);
    }
    EXPECT_FALSE(loader_->busy());
  }
  void ExpectValues(Chunk* chunk) {
    chunk->SetReady();
    for (uint32_t i = 0; i < chunk->entries.size(); ++i) {
      chunk->Prepare(*context_, i);
      const char* const value = chunk->Value(i);
      ASSERT_NE(value, nullptr) << chunk->ErrorOf(*context_, i).ToString();
      EXPECT_EQ(std::string(value, kValueBytes), ValueOf(chunk->entries[i].key, 1));
    }
  }

  static constexpr uint32_t kBuffers = 64;
  std::unique_ptr<ScanStore> store_;
  std::unique_ptr<ScanContext> context_;
  std::unique_ptr<ChunkCache> cache_;
  std::unique_ptr<ChunkLoader> loader_;
};

TEST_F(ChunkLoaderTest, EveryChunkIsHandedOutOnceWithAllItsValues) {
  for (const IoBackend backend : {IoBackend::kPsync, IoBackend::kLibaio}) {
    Open(backend);
    ASSERT_TRUE(loader_->Start().ok());
    const auto first = MakeChunk(0, 299);
    const auto second = MakeChunk(300, kRecords - 1);
    loader_->Add(first.get());
    loader_->Add(second.get());
    EXPECT_TRUE(loader_->busy());
    EXPECT_FALSE(loader_->reading()) << "nothing is submitted yet";
    std::vector<Chunk*> loaded;
    LoadAll(&loaded);
    ASSERT_EQ(loaded.size(), 2u);
    EXPECT_NE(loaded[0], loaded[1]);
    for (Chunk* chunk : loaded) {
      EXPECT_EQ(chunk->reads_left, 0u);
      EXPECT_FALSE(chunk->read_failed);
      ExpectValues(chunk);
    }
    EXPECT_GE(context_->read_bytes.load(), (first->plan.reads.size()) * kValueBytes);
    loader_.reset();
  }
}

TEST_F(ChunkLoaderTest, ReadsThatFailMarkTheirRecordsAlone) {
  Open(IoBackend::kPsync);
  ASSERT_TRUE(loader_->Start().ok());
  const auto chunk = MakeChunk(0, kRecords - 1);
  ASSERT_GT(chunk->plan.reads.size(), 1u);
  loader_->Add(chunk.get());
  std::vector<Chunk*> loaded;
  {
    FailSome failing(CallKind::kPread, EIO, 1);
    const ScopedHook hook(&failing);
    LoadAll(&loaded);
  }
  ASSERT_EQ(loaded.size(), 1u) << "a failed chunk is handed out as well";
  EXPECT_TRUE(chunk->read_failed);
  chunk->SetReady();
  uint64_t good = 0;
  uint64_t bad = 0;
  for (uint32_t i = 0; i < chunk->entries.size(); ++i) {
    chunk->Prepare(*context_, i);
    if (chunk->Value(i) != nullptr) {
      ++good;
    } else {
      ++bad;
      EXPECT_EQ(chunk->ErrorOf(*context_, i).code(), Code::kIOError);
    }
  }
  EXPECT_GT(good, 0u);
  EXPECT_GT(bad, 0u);
  EXPECT_LE(bad, kBufferBytes / kValueBytes) << "one read, of a buffer at most";
}

TEST_F(ChunkLoaderTest, AQueueThatFailsIsReplacedAndItsReadsAreDoneAgain) {
  Open(IoBackend::kLibaio);
  ASSERT_TRUE(loader_->Start().ok());
  const auto first = MakeChunk(0, 299);
  const auto second = MakeChunk(300, kRecords - 1);
  loader_->Add(first.get());
  loader_->Add(second.get());
  std::vector<Chunk*> loaded;
  {
    FailSome failing(CallKind::kIoGetEvents, EFAULT, 1);
    const ScopedHook hook(&failing);
    LoadAll(&loaded);
  }
  ASSERT_EQ(loaded.size(), 2u);
  for (Chunk* chunk : loaded) {
    EXPECT_FALSE(chunk->read_failed);
    ExpectValues(chunk);
  }
  EXPECT_TRUE(loader_->hungry());
}

TEST_F(ChunkLoaderTest, ADroppedChunkEndsWithoutReadingMore) {
  Open(IoBackend::kPsync);
  ASSERT_TRUE(loader_->Start().ok());
  const auto before = MakeChunk(0, 99);
  const auto dropped = MakeChunk(100, 299);
  const auto behind = MakeChunk(300, kRecords - 1);
  for (Chunk* const chunk : {before.get(), dropped.get(), behind.get()}) loader_->Add(chunk);
  loader_->Drop(dropped.get());
  EXPECT_EQ(dropped->reads_left, 0u);
  std::vector<Chunk*> loaded;
  LoadAll(&loaded);
  EXPECT_EQ(loaded, (std::vector<Chunk*>{before.get(), behind.get()}));
  uint64_t wanted_bytes = 0;
  for (const Chunk* const chunk : loaded) {
    for (const PlannedRead& read : chunk->plan.reads) wanted_bytes += read.slot_count * kValueBytes;
  }
  EXPECT_EQ(context_->read_bytes.load(), wanted_bytes);
  EXPECT_TRUE(loader_->hungry());
  // One that is loaded has nothing to drop.
  loader_->Drop(before.get());
  EXPECT_EQ(before->reads_left, 0u);
}

TEST_F(ChunkLoaderTest, IsHungryUntilAQueueFullOfReadsWaits) {
  Open(IoBackend::kPsync);
  // Without a queue nothing is submitted.
  const auto chunk = MakeChunk(0, kRecords - 1);
  uint64_t added_reads = 0;
  while (loader_->hungry()) {
    loader_->Add(chunk.get());
    added_reads += chunk->plan.reads.size();
    ASSERT_LE(added_reads, 1000u);
  }
  EXPECT_GE(added_reads, 128u);
  EXPECT_LT(added_reads - chunk->plan.reads.size(), 128u);
}

}  // namespace
}  // namespace engine_race::test
