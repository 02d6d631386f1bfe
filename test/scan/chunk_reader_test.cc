#include "engine_race/scan/chunk_reader.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "test/fake_memory_share.h"
#include "test/faults/system_calls.h"
#include "test/scan/scan_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint32_t kSmallWindow = 4;
const uint32_t kWindowRecords = BufferLayout().window_records();
const uint32_t kWalkRecords = BufferLayout().walk_records();

class FailReadsOfValues : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind != CallKind::kPread || PathOf(*call).find("/value_") == std::string::npos) {
      return call->Proceed();
    }
    errno = EIO;
    return -1;
  }
};

// Keys 1, 2, ... 200 and as many in each of the other three buckets.
class ChunkReaderTest : public ::testing::Test {
 protected:
  ChunkReaderTest() : store_(4) {
    for (uint64_t bucket = 0; bucket < 4; ++bucket) {
      for (uint64_t i = 1; i <= kEach; ++i) store_.Put(KeyIn(bucket, i));
    }
    store_.OpenReader();
    Options options = store_.options;
    options.io_backend = IoBackend::kPsync;
    context_ = std::make_unique<ScanContext>(*store_.log, *store_.index, options, RangeTuning());
    coordinator_ = std::make_unique<Coordinator>(
        context_.get(), kChunkBuffers * ChunkCache(BufferLayout()).booked_bytes(),
        /*share=*/nullptr);
    pool_ = std::make_unique<WindowPool>(context_.get(), coordinator_.get(), /*window_count=*/1);
  }

  static uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i; }

  static constexpr uint64_t kEach = 200;
  static constexpr uint32_t kChunkBuffers = 8;  // six of which may be lent
  ScanStore store_;
  std::unique_ptr<ScanContext> context_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<WindowPool> pool_;
};

TEST_F(ChunkReaderTest, ReadingByReadingItReadsEveryRecordOnce) {
  ChunkReader reader(context_.get(), pool_.get());
  ModelVisitor visitor(store_.model);
  uint64_t first = 0;
  uint32_t reading_count = 0;
  do {
    ASSERT_TRUE(reader.Read(first, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
    EXPECT_LE(reader.record_count(), kWindowRecords);
    ASSERT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
    first = reader.next_key();
    ++reading_count;
  } while (!reader.complete());
  EXPECT_TRUE(visitor.complete()) << visitor.count;
  EXPECT_EQ(reading_count, (4 * kEach + 63) / 64) << "readings reach over the ends of buckets";
}

TEST_F(ChunkReaderTest, WithoutAWindowOfThePoolItReadsAFewRecordsAtATime) {
  ChunkReader first(context_.get(), pool_.get());
  ASSERT_TRUE(first.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  EXPECT_EQ(first.record_count(), kWindowRecords);
  const uint64_t pool_bytes = pool_->memory_bytes();
  {
    ChunkReader second(context_.get(), pool_.get());
    ASSERT_TRUE(second.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
    EXPECT_EQ(second.record_count(), kSmallWindow);
    EXPECT_EQ(pool_->memory_bytes(), pool_bytes + kSmallWindow * kValueBytes);
    ModelVisitor visitor(store_.model, 0, 4);
    EXPECT_TRUE(second.VisitAll(std::ref(visitor)).ok());
    EXPECT_TRUE(visitor.complete());
  }
  EXPECT_EQ(pool_->memory_bytes(), pool_bytes) << "memory of its own is given back";
  first.GiveBack();
  ChunkReader third(context_.get(), pool_.get());
  ASSERT_TRUE(third.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  EXPECT_EQ(third.record_count(), kWindowRecords) << "the window is free again";
}

TEST_F(ChunkReaderTest, ALongWalkReadsWholeBucketsIntoLentWindows) {
  ChunkReader reader(context_.get(), pool_.get());
  ModelVisitor visitor(store_.model);
  uint64_t first = 0;
  do {
    ASSERT_TRUE(reader.Read(first, UINT64_MAX, kLatestVersion, kWalkRecords).ok());
    // Six windows would hold half of the next bucket as well.
    EXPECT_EQ(reader.record_count(), kEach);
    ASSERT_TRUE(reader.VisitAll(std::ref(visitor)).ok());
    first = reader.next_key();
  } while (!reader.complete());
  EXPECT_TRUE(visitor.complete()) << visitor.count;
  EXPECT_EQ(pool_->memory_bytes(), 0u);
  EXPECT_GT(coordinator_->memory_bytes(), 0u);
  EXPECT_LE(coordinator_->memory_bytes(), 6 * BufferLayout().buffer_bytes());
}

TEST_F(ChunkReaderTest, WindowsThatAReadingDoesNotNeedAreThereForOthers) {
  ChunkReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(0, UINT64_MAX, kLatestVersion, kWalkRecords).ok());
  ASSERT_EQ(reader.record_count(), kEach) << "four windows";
  ChunkReader another(context_.get(), pool_.get());
  uint32_t count = 0;
  ASSERT_TRUE(another.Reserve(kWalkRecords, /*may_allocate=*/false, &count).ok());
  EXPECT_EQ(count, 112u) << "two windows, but an eighth for gaps";
  // A window of the pool will do for these.
  ASSERT_TRUE(reader.Read(0, UINT64_MAX, kLatestVersion, 10).ok());
  ASSERT_TRUE(another.Reserve(kWalkRecords, /*may_allocate=*/false, &count).ok());
  EXPECT_EQ(count, 336u) << "all six";
}

TEST_F(ChunkReaderTest, ASmallWindowIsExchangedOnceAnotherIsFree) {
  ChunkReader holder(context_.get(), pool_.get());
  ASSERT_TRUE(holder.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  ChunkReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  EXPECT_EQ(reader.record_count(), kSmallWindow);
  holder.GiveBack();
  ASSERT_TRUE(reader.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  EXPECT_EQ(reader.record_count(), kWindowRecords);
}

TEST_F(ChunkReaderTest, WithoutAFreeWindowNothingIsAllocatedUnlessItMayBe) {
  ChunkReader holder(context_.get(), pool_.get());
  ASSERT_TRUE(holder.Read(0, UINT64_MAX, kLatestVersion, kWindowRecords).ok());
  const uint64_t pool_bytes = pool_->memory_bytes();
  ChunkReader reader(context_.get(), pool_.get());
  uint32_t count = 1;
  ASSERT_TRUE(reader.Reserve(10, /*may_allocate=*/false, &count).ok());
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(pool_->memory_bytes(), pool_bytes);
  ASSERT_TRUE(reader.Reserve(10, /*may_allocate=*/true, &count).ok());
  EXPECT_EQ(count, kSmallWindow);
}

TEST_F(ChunkReaderTest, FindsWhatItHasRead) {
  ChunkReader reader(context_.get(), pool_.get());
  ASSERT_TRUE(reader.Read(3, UINT64_MAX, kLatestVersion, /*max_records=*/5).ok());
  EXPECT_EQ(reader.record_count(), 5u);
  EXPECT_EQ(reader.next_key(), 8u);
  for (uint64_t key = 3; key < 8; ++key) {
    uint32_t entry = 0;
    ASSERT_TRUE(reader.Find(key, &entry));
    const char* value = nullptr;
    ASSERT_TRUE(reader.Value(entry, &value).ok());
    EXPECT_EQ(std::string(value, kValueBytes), ValueOf(key, 1));
  }
  uint32_t entry = 0;
  EXPECT_FALSE(reader.Find(8, &entry));
  reader.Clear();
  EXPECT_FALSE(reader.Find(3, &entry));
}

TEST_F(ChunkReaderTest, ValuesThatCannotBeReadFailAloneAndStagedOnesDoNot) {
  store_.Put(KeyIn(0, kEach + 1));
  ASSERT_LT(store_.log->LoggedValueWatermark(0), kEach + 1) << "staged";
  ChunkReader reader(context_.get(), pool_.get());
  {
    FailReadsOfValues failing;
    const ScopedHook hook(&failing);
    ASSERT_TRUE(reader.Read(kEach, kEach + 1, kLatestVersion, kWindowRecords).ok())
        << "its values fail";
  }
  ASSERT_EQ(reader.record_count(), 2u);
  const char* value = nullptr;
  EXPECT_EQ(reader.Value(0, &value).code(), Code::kIOError);
  ASSERT_TRUE(reader.Value(1, &value).ok());
  EXPECT_EQ(std::string(value, kValueBytes), ValueOf(kEach + 1, 1));
}

TEST_F(ChunkReaderTest, TheOldStateIsReadAtItsVersion) {
  ViewRegistry::View view;
  ASSERT_TRUE(store_.index->views().Take(&view).ok());
  ASSERT_TRUE(store_.log->Append(5, ValueOf(5, 2).data()).ok());
  ChunkReader reader(context_.get(), pool_.get());
  for (const auto& [version, round] : {std::pair(view.version, 1), std::pair(kLatestVersion, 2)}) {
    ASSERT_TRUE(reader.Read(5, 5, version, kWindowRecords).ok());
    const char* value = nullptr;
    ASSERT_TRUE(reader.Value(0, &value).ok());
    EXPECT_EQ(std::string(value, kValueBytes), ValueOf(5, round));
  }
  ViewRegistry::Release(&view);
}

class ChunkReaderAheadTest : public ChunkReaderTest {
 protected:
  ChunkReaderAheadTest() : reader_(context_.get(), pool_.get()) {
    EXPECT_TRUE(store_.index->views().Take(&view_).ok());
  }
  ~ChunkReaderAheadTest() override {
    reader_.GiveBack();
    ViewRegistry::Release(&view_);
  }

  Status ReadAt(uint64_t first_key) {
    return reader_.Read(first_key, UINT64_MAX, view_.version, kCount);
  }
  // Of the chunk at hand.
  void ExpectValue(uint64_t key, uint64_t round) {
    uint32_t entry = 0;
    ASSERT_TRUE(reader_.Find(key, &entry));
    const char* value = nullptr;
    ASSERT_TRUE(reader_.Value(entry, &value).ok());
    EXPECT_EQ(std::string(value, kValueBytes), ValueOf(key, round));
  }
  uint64_t read_bytes() const { return context_->read_bytes.load(); }

  static constexpr uint32_t kCount = 100;
  ChunkReader reader_;
  ViewRegistry::View view_;
};

TEST_F(ChunkReaderAheadTest, AWalkThatReadsAheadReadsEverythingOnce) {
  ModelVisitor visitor(store_.model);
  const uint64_t bytes_before = read_bytes();
  ASSERT_TRUE(ReadAt(0).ok());
  while (true) {
    EXPECT_EQ(reader_.record_count(), kCount);
    reader_.ReadAhead(kCount);
    ASSERT_TRUE(reader_.VisitAll(std::ref(visitor)).ok());
    if (reader_.complete()) break;
    ASSERT_TRUE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  }
  EXPECT_TRUE(visitor.complete()) << visitor.count;
  EXPECT_LE(read_bytes() - bytes_before, store_.model.size() * kValueBytes);
}

TEST_F(ChunkReaderAheadTest, WhatWasReadAheadIsTheStateOfTheView) {
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  const uint64_t key = reader_.next_key() + 1;
  ASSERT_TRUE(store_.log->Append(key, ValueOf(key, 2).data()).ok());
  ASSERT_TRUE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  ExpectValue(key, 1);
}

TEST_F(ChunkReaderAheadTest, ReadsAheadServeNoOtherKeyBoundOrView) {
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  const uint64_t next = reader_.next_key();
  EXPECT_FALSE(reader_.TakeAhead(KeyIn(3, 1), UINT64_MAX, view_.version)) << "beyond it";
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  EXPECT_FALSE(reader_.TakeAhead(next, UINT64_MAX - 1, view_.version)) << "up to another key";
  ASSERT_TRUE(store_.log->Append(next, ValueOf(next, 2).data()).ok());
  ViewRegistry::View later;
  ASSERT_TRUE(store_.index->views().Take(&later).ok());
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  ASSERT_TRUE(reader_.Read(next, UINT64_MAX, later.version, kCount).ok());
  ExpectValue(next, 2);
  ViewRegistry::Release(&later);
}

TEST_F(ChunkReaderAheadTest, AWalkMaySkipWithinWhatWasReadAhead) {
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  const uint64_t key = reader_.next_key() + 7;
  ASSERT_TRUE(reader_.TakeAhead(key, UINT64_MAX, view_.version));
  ExpectValue(key, 1);
}

TEST_F(ChunkReaderAheadTest, AFailedReadIsTriedAgain) {
  ASSERT_TRUE(ReadAt(0).ok());
  {
    FailReadsOfValues failing;
    const ScopedHook hook(&failing);
    reader_.ReadAhead(kCount);
    EXPECT_FALSE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  }
  ASSERT_TRUE(ReadAt(reader_.next_key()).ok());
  const char* value = nullptr;
  EXPECT_TRUE(reader_.Value(0, &value).ok());
}

TEST_F(ChunkReaderAheadTest, WithoutWindowsOrLoadersNothingIsReadAhead) {
  std::vector<ChunkLoader*> loaders;
  while (ChunkLoader* const loader = pool_->TakeLoader(/*ahead=*/true)) loaders.push_back(loader);
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  EXPECT_FALSE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  for (ChunkLoader* const loader : loaders) pool_->GiveLoader(loader);
  Windows only;
  ASSERT_TRUE(pool_->TakeWindows(1, /*may_allocate=*/true, &only).ok());
  std::vector<uint32_t> lent;
  coordinator_->Lend(kChunkBuffers, &lent);
  EXPECT_EQ(lent.size(), 4u) << "but for the two of the chunk at hand";
  reader_.ReadAhead(kCount);
  EXPECT_FALSE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  coordinator_->TakeBack(0, &lent);
  reader_.ReadAhead(kCount);
  EXPECT_TRUE(reader_.TakeAhead(reader_.next_key(), UINT64_MAX, view_.version));
  pool_->GiveWindows(&only);
}

// A sanitizer sees reads that outlive their memory.
TEST_F(ChunkReaderAheadTest, MemoryThatEndsFirstWaitsForReadsInFlight) {
  ASSERT_TRUE(ReadAt(0).ok());
  reader_.ReadAhead(kCount);
  pool_.reset();
  coordinator_.reset();
  reader_.Abandon();
}

// Lent buffers cannot be taken away, so a smaller limit waits for them.
TEST_F(ChunkReaderTest, ReturnedBuffersAboveTheLimitGoToTheSystem) {
  FakeMemoryShare share;
  share.limit_bytes = kChunkBuffers * ChunkCache(BufferLayout()).booked_bytes();
  Coordinator coordinator(context_.get(), share.limit_bytes, &share);
  std::vector<uint32_t> lent;
  coordinator.Lend(6, &lent);
  ASSERT_EQ(lent.size(), 6u);
  EXPECT_EQ(share.wants, 0u) << "there was room";
  EXPECT_EQ(share.booked_bytes, 6 * ChunkCache(BufferLayout()).booked_bytes());
  share.limit_bytes = 2 * ChunkCache(BufferLayout()).booked_bytes();
  coordinator.ShrinkTo(share.limit_bytes);
  EXPECT_EQ(share.booked_bytes, 6 * ChunkCache(BufferLayout()).booked_bytes());
  coordinator.TakeBack(3, &lent);
  EXPECT_EQ(lent.size(), 3u);
  EXPECT_EQ(share.booked_bytes, 3 * ChunkCache(BufferLayout()).booked_bytes());
  coordinator.TakeBack(0, &lent);
  EXPECT_EQ(share.booked_bytes, 2 * ChunkCache(BufferLayout()).booked_bytes());
  coordinator.Lend(4, &lent);
  EXPECT_EQ(lent.size(), 2u);
  EXPECT_EQ(share.wants, 1u) << "for two buffers more";
  coordinator.TakeBack(0, &lent);
}

TEST_F(ChunkReaderTest, ReadersThatCanWaitTakeHalfOfTheWindows) {
  WindowPool pool(context_.get(), coordinator_.get(), /*window_count=*/4);
  std::vector<Windows> taken(4);
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(pool.TakeWindows(1, /*may_allocate=*/false, &taken[i]).ok());
    EXPECT_EQ(taken[i].position_count, i < 2 ? kWindowRecords : 0U) << i;
  }
  ASSERT_TRUE(pool.TakeWindows(1, /*may_allocate=*/true, &taken[3]).ok());
  EXPECT_EQ(taken[3].position_count, kWindowRecords);
  for (Windows& each : taken) pool.GiveWindows(&each);
}

TEST_F(ChunkReaderTest, LoadersAreFewAndUsedAgain) {
  ChunkLoader* const first = pool_->TakeLoader(/*ahead=*/false);
  ASSERT_NE(first, nullptr);
  pool_->GiveLoader(first);
  EXPECT_EQ(pool_->TakeLoader(/*ahead=*/true), first);
  uint32_t count = 1;
  while (count < 100 && pool_->TakeLoader(/*ahead=*/true) != nullptr) ++count;
  EXPECT_EQ(count, 4u);
  while (count < 100 && pool_->TakeLoader(/*ahead=*/false) != nullptr) ++count;
  EXPECT_EQ(count, 8u) << "four are left to those that must read now";
  pool_->GiveLoader(first);
  EXPECT_EQ(pool_->TakeLoader(/*ahead=*/true), nullptr);
  EXPECT_EQ(pool_->TakeLoader(/*ahead=*/false), first);
}

}  // namespace
}  // namespace engine_race::test
