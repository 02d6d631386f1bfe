#include "engine_race/log/log_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

TEST(LogReaderTest, StagedAndLoggedValuesReadAlike) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 11);
  ASSERT_EQ(parts.context.buckets[0].LoggedValueWatermark(), 8u);
  for (uint64_t slot = 0; slot < 11; ++slot) EXPECT_EQ(parts.Read(slot), ValueOf(slot, 1)) << slot;
}

// A pin that stayed would keep its place from all later groups.
TEST(LogReaderTest, AFailedReadOfAStagedValueGivesItsPinBack) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 1);
  {
    FailingCalls failing(CallKind::kPread, format::kStagingValuesName, EIO);
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts.Read(0), "");
    EXPECT_EQ(failing.count, 1);
  }
  parts.AppendKeys(1, 4);
  EXPECT_EQ(parts.context.buckets[0].values.FreePlace(), 0u) << "the group has left place 0";
}

TEST(LogReaderTest, ACutHasWhatIsStagedAndTheListenerTheRest) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 259);
  NullListener listener;
  BucketCut cut;
  ASSERT_TRUE(parts.reader.CutBucket(0, /*first_sequence=*/0, &listener, &cut).ok());
  EXPECT_EQ(cut.record_count, 259u);
  EXPECT_EQ(cut.logged_key_watermark, 256u);
  ASSERT_EQ(cut.staged_keys.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(cut.staged_keys[i].key, 256 + i);
  parts.AppendKeys(259, 260);
  EXPECT_EQ(listener.appends, 1);
  parts.reader.DetachListener(0);
  parts.AppendKeys(260, 261);
  EXPECT_EQ(listener.appends, 1);
}

TEST(LogReaderTest, ACutBeginsWhereTheIndexEnds) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 259);
  NullListener listener;
  for (const uint64_t first_sequence : {0, 100, 255, 256, 257, 258}) {
    BucketCut cut;
    ASSERT_TRUE(parts.reader.CutBucket(0, first_sequence, &listener, &cut).ok());
    EXPECT_EQ(cut.first_sequence, first_sequence);
    EXPECT_EQ(cut.record_count, 259u);
    EXPECT_EQ(cut.logged_key_watermark, 256u);
    EXPECT_EQ(cut.first_staged(), std::max<uint64_t>(first_sequence, 256));
    ASSERT_EQ(cut.staged_keys.size(), 259 - cut.first_staged());
    for (size_t i = 0; i < cut.staged_keys.size(); ++i) {
      EXPECT_EQ(cut.staged_keys[i].key, cut.first_staged() + i);
    }
    parts.reader.DetachListener(0);
  }
}

TEST(LogReaderTest, ACutAtTheEndReadsNoStagingAndOneBehindItIsRefused) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 259);
  NullListener listener;
  BucketCut cut;
  {
    FailingCalls failing(CallKind::kPread, format::kStagingKeysName, EIO);
    const ScopedHook hook(&failing);
    EXPECT_EQ(parts.reader.CutBucket(0, 258, &listener, &cut).code(), Code::kIOError);
    EXPECT_EQ(failing.count, 1);
    ASSERT_TRUE(parts.reader.CutBucket(0, 259, &listener, &cut).ok());
    EXPECT_EQ(failing.count, 1);
  }
  EXPECT_TRUE(cut.staged_keys.empty());
  parts.AppendKeys(259, 260);
  EXPECT_EQ(listener.appends, 1);
  parts.reader.DetachListener(0);
  EXPECT_EQ(parts.reader.CutBucket(0, 261, &listener, &cut).code(), Code::kInvalidArgument);
  parts.AppendKeys(260, 261);
  EXPECT_EQ(listener.appends, 1) << "a refused cut leaves no listener";
}

TEST(LogReaderTest, AnEntryIsReadFromLogAndStagingAlike) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 515);
  ASSERT_EQ(parts.context.buckets[0].keys.watermark(), 512u);
  for (const uint64_t slot : {0, 1, 255, 256, 511, 512, 514}) {
    format::KeyEntry entry{};
    ASSERT_TRUE(parts.reader.ReadKeyEntry(0, slot, &entry).ok());
    KeyRecord record;
    ASSERT_TRUE(SlotTable::DecodeAppended(parts.context.codec(0), entry, slot, &record));
    EXPECT_EQ(record.key, slot);
    EXPECT_EQ(record.sequence, static_cast<uint64_t>(slot));
  }
  format::KeyEntry entry{};
  EXPECT_EQ(parts.reader.ReadKeyEntry(0, 515, &entry).code(), Code::kInvalidArgument);
}

TEST(LogReaderTest, AnEntryStaysReadableWhileItsGroupMovesToTheLog) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 1);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    parts.AppendKeys(1, 1024);
    done.store(true);
  });
  uint64_t checked_count = 0;
  while (!done.load() || checked_count == 0) {
    const uint64_t slot = parts.context.buckets[0].RecordCount() - 1;
    format::KeyEntry entry{};
    KeyRecord record;
    EXPECT_TRUE(parts.reader.ReadKeyEntry(0, slot, &entry).ok());
    EXPECT_TRUE(SlotTable::DecodeAppended(parts.context.codec(0), entry, slot, &record));
    EXPECT_EQ(record.key, slot);
    ++checked_count;
  }
  writer.join();
}

// No append may come between what the function sees and what it does.
TEST(LogReaderTest, NoRecordIsAppendedWhileABucketIsLocked) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  NullListener listener;
  BucketCut cut;
  ASSERT_TRUE(parts.reader.CutBucket(0, /*first_sequence=*/0, &listener, &cut).ok());
  bool locked = false;
  parts.reader.WithBucketLocked(0, [&] {
    std::thread([&] {
      std::unique_lock<std::mutex> lock(parts.context.buckets[0].mutex, std::try_to_lock);
      locked = !lock.owns_lock();
    }).join();
  });
  EXPECT_TRUE(locked);
  parts.AppendKeys(0, 1);
  EXPECT_EQ(listener.appends, 1) << "the lock was given back";
  parts.reader.DetachListener(0);
}

// A bucket whose staging is lost. Its log has three records, of which two are synced.
struct LostStaging {
  explicit LostStaging(const std::string& dir) : parts(TinyLogOptions(), dir) {
    parts.AppendKeys(0, 3);
    Bucket& bucket = parts.context.buckets[0];
    Region page;
    EXPECT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
    std::memset(page.data(), 0, kIoAlignment);
    auto* const entries = reinterpret_cast<format::KeyEntry*>(page.data());
    EXPECT_TRUE(
        parts.context.staging.Read(LaneKind::kKeys, 0, bucket.keys.PlaceOf(0), 0, 3, entries).ok());
    EXPECT_TRUE(parts.writer
                    .WriteKeys(0, 0, format::kPageEntries,
                               reinterpret_cast<const format::KeyEntry*>(page.data()))
                    .ok());
    const std::string zeros(3 * sizeof(format::KeyEntry), '\0');
    Overwrite(dir + "/" + format::kStagingKeysName, zeros.data(), zeros.size(),
              parts.context.geometry().KeyPlaceOffset(0, bucket.keys.PlaceOf(0)));
    bucket.synced_watermark = 2;
  }

  LogParts parts;
};

TEST(LogReaderTest, ACutTakesNoSyncedEntryFromStaging) {
  const TempDir dir;
  const LostStaging lost(dir.path());
  NullListener listener;
  for (const uint64_t first_sequence : {0, 1, 2, 3}) {
    BucketCut cut;
    ASSERT_TRUE(lost.parts.reader.CutBucket(0, first_sequence, &listener, &cut).ok());
    EXPECT_EQ(cut.logged_key_watermark, 2u);
    EXPECT_EQ(cut.staged_keys.size(), first_sequence < 3 ? 1u : 0u) << "what is not synced";
    lost.parts.reader.DetachListener(0);
  }
}

TEST(LogReaderTest, ASyncedEntryThatStagingLostIsReadFromTheLog) {
  const TempDir dir;
  const LostStaging lost(dir.path());
  format::KeyEntry entry{};
  ASSERT_TRUE(lost.parts.reader.ReadKeyEntry(0, 1, &entry).ok());
  EXPECT_EQ(entry.key, 1u);
  ASSERT_TRUE(lost.parts.reader.ReadKeyEntry(0, 2, &entry).ok());
  EXPECT_EQ(entry.check, 0u) << "what is not synced is read from staging alone";
}

TEST(LogReaderTest, MessagesNameFileBucketAndSlot) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  ASSERT_TRUE(parts.context.files.slots.Give(3, 17, 1).ok());
  const Status corrupt = parts.reader.CorruptValue(3, 17);
  EXPECT_EQ(corrupt.code(), Code::kCorruption);
  EXPECT_NE(corrupt.message().find("value_01: bucket 3, slot 17"), std::string::npos)
      << corrupt.message();
  EXPECT_EQ(parts.reader.LostValue(0, 1).code(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race::test
