#include "engine_race/log/log_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

TEST(LogReaderTest, StagedAndLoggedValuesReadAlike) {
  const TempDir dir;
  LogParts parts(TinyOptions(), dir.path());
  parts.AppendKeys(0, 11);
  ASSERT_EQ(parts.context.buckets[0].LoggedValueWatermark(), 8u);
  for (uint64_t slot = 0; slot < 11; ++slot) EXPECT_EQ(parts.Read(slot), ValueOf(slot, 1)) << slot;
}

// A pin that stayed would keep its place from all later groups.
TEST(LogReaderTest, AFailedReadOfAStagedValueGivesItsPinBack) {
  const TempDir dir;
  LogParts parts(TinyOptions(), dir.path());
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
  LogParts parts(TinyOptions(), dir.path());
  parts.AppendKeys(0, 259);
  NullListener listener;
  BucketCut cut;
  ASSERT_TRUE(parts.reader.CutBucket(0, &listener, &cut).ok());
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

// An opening that may not write finds synced records of unfinished groups in the log alone.
TEST(LogReaderTest, ACutTakesSyncedEntriesThatStagingLostFromTheLog) {
  const TempDir dir;
  LogParts parts(TinyOptions(), dir.path());
  parts.AppendKeys(0, 3);
  Bucket& bucket = parts.context.buckets[0];
  Region page;
  ASSERT_TRUE(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page).ok());
  std::memset(page.data(), 0, kIoAlignment);
  auto* const entries = reinterpret_cast<format::KeyEntry*>(page.data());
  ASSERT_TRUE(parts.context.staging.ReadKeys(0, bucket.keys.PlaceOf(0), 0, 3, entries).ok());
  ASSERT_TRUE(parts.writer.WriteKeys(0, 0, kIoAlignment, page.data()).ok());
  const std::string zeros(3 * sizeof(format::KeyEntry), '\0');
  Overwrite(dir.Join(format::kStagingKeysName), zeros.data(), zeros.size(),
            parts.context.geometry().KeyPlaceOffset(0, bucket.keys.PlaceOf(0)));
  bucket.synced_watermark = 2;
  bucket.staging_verified = false;
  NullListener listener;
  BucketCut cut;
  ASSERT_TRUE(parts.reader.CutBucket(0, &listener, &cut).ok());
  ASSERT_EQ(cut.staged_keys.size(), 3u);
  EXPECT_EQ(cut.staged_keys[1].key, 1u);
  EXPECT_EQ(cut.staged_keys[2].check, 0u) << "what is not synced is not in the log either";
}

TEST(LogReaderTest, MessagesNameFileBucketAndSlot) {
  const TempDir dir;
  LogParts parts(TinyOptions(), dir.path());
  const Status corrupt = parts.reader.CorruptValue(3, 17);
  EXPECT_EQ(corrupt.code(), Code::kCorruption);
  EXPECT_NE(corrupt.message().find("value_01: bucket 3, slot 17"), std::string::npos)
      << corrupt.message();
  EXPECT_EQ(parts.reader.LostValue(0, 1).code(), Code::kCorruption);
}

}  // namespace
}  // namespace engine_race::test
