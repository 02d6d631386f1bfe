#include "engine_race/log/log_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

const format::KeyEntry* EntriesOf(const Region& page) {
  return reinterpret_cast<const format::KeyEntry*>(page.data());
}

// Writes to the first page of each bucket's logs.
void WriteToAll(LogParts* parts) {
  Region page;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
  for (uint32_t bucket = 0; bucket < parts->context.geometry().bucket_count; ++bucket) {
    ASSERT_TRUE(parts->writer.WriteKeys(bucket, 0, format::kPageEntries, EntriesOf(page)).ok());
    ASSERT_TRUE(parts->writer.WriteValues(bucket, std::array{SlotPiece{0, 1}}, page.data()).ok());
  }
}

TEST(LogWriterTest, OnlyFilesThatWereWrittenToAreFlushed) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  const uint64_t count_before = parts.writer.flush_count();
  // One key file and one value file: the others have no segment.
  constexpr uint64_t kOpenFiles = 2;
  ASSERT_TRUE(parts.writer.FlushLogs().ok());
  EXPECT_EQ(parts.writer.flush_count() - count_before, kOpenFiles)
      << "an earlier opening may have written";
  ASSERT_TRUE(parts.writer.FlushLogs().ok());
  EXPECT_EQ(parts.writer.flush_count() - count_before, kOpenFiles);

  Region page;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
  // Buckets 0 and 1 share a file; bucket 3 is in the other one.
  ASSERT_TRUE(parts.writer.WriteKeys(0, 0, format::kPageEntries, EntriesOf(page)).ok());
  ASSERT_TRUE(parts.writer.WriteKeys(1, 0, format::kPageEntries, EntriesOf(page)).ok());
  ASSERT_TRUE(parts.writer.FlushLogs().ok());
  EXPECT_EQ(parts.writer.flush_count() - count_before, kOpenFiles + 1);
  ASSERT_TRUE(parts.writer.WriteKeys(3, 0, format::kPageEntries, EntriesOf(page)).ok());
  ASSERT_TRUE(parts.writer.WriteValues(3, std::array{SlotPiece{0, 1}}, page.data()).ok());
  ASSERT_TRUE(parts.writer.FlushLogs().ok());
  EXPECT_EQ(parts.writer.flush_count() - count_before, kOpenFiles + 3);
}

// Several threads do it.
TEST(LogWriterTest, EachOfManyFilesIsFlushedOnce) {
  const TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_count = options.file_count = 32;
  LogParts parts(options, dir.path());
  ASSERT_NO_FATAL_FAILURE(WriteToAll(&parts));
  std::mutex mutex;
  std::map<std::string, int> counts;
  CallWatch watch([&](SystemCall* call) {
    const std::lock_guard lock(mutex);
    if (call->kind == CallKind::kFdatasync) ++counts[PathOf(*call)];
    return call->Proceed();
  });
  {
    const ScopedHook hook(&watch);
    ASSERT_TRUE(parts.writer.FlushLogs().ok());
  }
  EXPECT_EQ(counts.size(), 2u * options.file_count + 1) << "the table of segments, too";
  for (const auto& [path, count] : counts) EXPECT_EQ(count, 1) << path;
}

TEST(LogWriterTest, AFailedFlushOfOneOfManyFilesIsFinal) {
  const TempDir dir;
  Options options = TinyLogOptions();
  options.bucket_count = options.file_count = 32;
  LogParts parts(options, dir.path());
  ASSERT_NO_FATAL_FAILURE(WriteToAll(&parts));
  FailingCalls failing(CallKind::kFdatasync, "/value_31", EIO);
  const ScopedHook hook(&failing);
  EXPECT_EQ(parts.writer.FlushLogs().code(), Code::kIOError);
  EXPECT_EQ(failing.count, 1);
  EXPECT_TRUE(parts.context.latch.latched());
}

TEST(LogWriterTest, ValuesAndEntriesLieWhereTheirSlotSays) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Region bytes;
  ASSERT_TRUE(Region::Allocate(4 * kValueBytes, /*huge_pages=*/false, &bytes).ok());
  for (uint64_t i = 0; i < 4; ++i) FillValue(i, 7, bytes.data() + i * kValueBytes);
  ASSERT_TRUE(parts.writer.WriteValues(2, std::array{SlotPiece{8, 4}}, bytes.data()).ok());
  ASSERT_TRUE(parts.writer.WriteKeys(2, 256, format::kPageEntries, EntriesOf(bytes)).ok());

  Region found;
  ASSERT_TRUE(Region::Allocate(kValueBytes, /*huge_pages=*/false, &found).ok());
  ASSERT_TRUE(parts.context.files.slots.ReadValues(2, 10, 1, found.data()).ok());
  EXPECT_EQ(std::string(found.data(), kValueBytes), ValueOf(2, 7));
  ASSERT_TRUE(parts.context.files.slots.ReadKeys(2, 256, format::kPageEntries, found.data()).ok());
  EXPECT_EQ(std::string(found.data(), kValueBytes), ValueOf(0, 7));
}

TEST(LogWriterTest, AFailedFlushEndsWritingAndPutsEveryBucketInDoubt) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 1);
  ASSERT_NE(parts.Counts().page_cache_id, 0u);
  FailingCalls failing(CallKind::kFdatasync, "/key_00", EIO);
  {
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts.writer.FlushLogs().code(), Code::kIOError);
  }
  EXPECT_EQ(failing.count, 1);
  EXPECT_TRUE(parts.context.latch.latched());
  EXPECT_EQ(parts.Append(1, 5).code(), Code::kIOError);
  std::vector<BucketState> states;
  ASSERT_TRUE(parts.context.staging.ReadCounts(&states).ok());
  for (const BucketState& state : states) EXPECT_EQ(state.page_cache_id, 0u);
}

// The next opening waits for it, and so for what a killed process still writes.
TEST(LogWriterTest, AFileThatIsOpenedLaterIsLockedToo) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  ASSERT_TRUE(parts.writer.Init().ok());
  ASSERT_TRUE(parts.context.files.slots.Give(3, 0, 1).ok());
  if (!parts.context.files.slots.value_file(1).direct()) GTEST_SKIP() << "no direct I/O here";
  for (const char* name : {"value_00", "value_01"}) {
    io::File other;
    ASSERT_TRUE(
        io::File::OpenPath(dir.Join(name), io::Access::kReadWrite, io::Caching::kDirect, &other)
            .ok());
    const Status locked = sys::LockFile(other.fd(), sys::LockKind::kExclusive);
    EXPECT_EQ(locked.error(), EAGAIN) << name;
  }
}

// Whatever the kernel gives as the reason: a full disk at a flush is no full disk for the caller.
TEST(LogWriterTest, AFlushThatFindsTheDiskFullIsFinalToo) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  ASSERT_NO_FATAL_FAILURE(WriteToAll(&parts));
  FailingCalls failing(CallKind::kFdatasync, "/value_01", ENOSPC);
  const ScopedHook hook(&failing);
  EXPECT_EQ(parts.writer.FlushLogs().code(), Code::kIOError);
  EXPECT_TRUE(parts.context.latch.latched());
}

TEST(LogWriterTest, SpaceIsReservedOnceForManyGroups) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  int count = 0;
  CallWatch watch([&count](SystemCall* call) {
    if (call->kind == CallKind::kFallocate && PathOf(*call).ends_with("/value_00")) ++count;
    return call->Proceed();
  });
  const ScopedHook hook(&watch);
  for (uint64_t group = 0; group < 16; ++group) {
    parts.writer.ReserveAhead(0, LaneKind::kValues, group);
  }
  EXPECT_EQ(count, 1);
  EXPECT_LE(parts.context.buckets[0].reserved_values, parts.context.files.slots.SlotEnd(0))
      << "no more than its segments";
}

}  // namespace
}  // namespace engine_race::test
