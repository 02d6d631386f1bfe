#include "engine_race/log/group_writer.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <thread>

#include "test/eventually.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/page_cache_test_util.h"

namespace engine_race::test {
namespace {

TEST(GroupWriterTest, EachAppendIsCountedAndEachFullGroupLogged) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  for (uint64_t key = 0; key < 11; ++key) {
    ASSERT_TRUE(parts.Append(0, key).ok());
    EXPECT_EQ(parts.Counts().record_count, key + 1);
    EXPECT_EQ(parts.Counts().logged_value_watermark, (key + 1) / 4 * 4);
  }
  EXPECT_EQ(parts.context.buckets[0].RecordCount(), 11u);
  EXPECT_EQ(parts.context.buckets[0].LoggedValueWatermark(), 8u);
  EXPECT_EQ(parts.Counts().logged_key_watermark, 0u);
}

TEST(GroupWriterTest, DamagedCountsRefuseAnAppendAtItsFirstStep) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.context.buckets[1].damaged = true;
  EXPECT_EQ(parts.groups.BeginAppend(1).code(), Code::kCorruption);
  EXPECT_TRUE(parts.groups.BeginAppend(0).ok());
}

// The fourth append fills the group: its record is staged, and the next append is told.
TEST(GroupWriterTest, AGroupThatFindsTheDiskFullStaysStagedAndIsTriedFirst) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 3);
  FailingCalls failing(CallKind::kPwrite, "/value_00", ENOSPC);
  const ScopedHook hook(&failing);
  EXPECT_TRUE(parts.Append(0, 3).ok());
  EXPECT_EQ(parts.context.buckets[0].RecordCount(), 4u);
  EXPECT_EQ(parts.context.buckets[0].LoggedValueWatermark(), 0u);
  EXPECT_EQ(parts.Append(0, 4).code(), Code::kFull);
  EXPECT_EQ(parts.context.buckets[0].RecordCount(), 4u) << "nothing is staged behind it";
  EXPECT_EQ(failing.count, 2);
  EXPECT_EQ(parts.Read(3), ValueOf(3, 1));
  EXPECT_FALSE(parts.context.latch.latched());
  failing.on = false;
  EXPECT_TRUE(parts.Append(0, 4).ok());
  EXPECT_EQ(parts.context.buckets[0].LoggedValueWatermark(), 4u);
  for (uint64_t slot = 0; slot < 5; ++slot) EXPECT_EQ(parts.Read(slot), ValueOf(slot, 1));
}

TEST(GroupWriterTest, AnotherFailureOfAGroupEndsWriting) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  parts.AppendKeys(0, 3);
  FailingCalls failing(CallKind::kPwrite, "/value_00", EIO);
  const ScopedHook hook(&failing);
  EXPECT_TRUE(parts.Append(0, 3).ok());
  EXPECT_TRUE(parts.context.latch.latched());
  EXPECT_EQ(parts.Append(0, 4).code(), Code::kIOError);
  EXPECT_EQ(parts.Append(1, 4).code(), Code::kIOError) << "of any bucket";
  EXPECT_EQ(failing.count, 1) << "what failed is not tried again";
  EXPECT_EQ(parts.Read(3), ValueOf(3, 1));
}

// Readers pin every place of the lane of values: the next group has none to begin in.
TEST(GroupWriterTest, AnAppendWithoutAPlaceWaitsForOne) {
  const TempDir dir;
  LogParts parts(TinyLogOptions(), dir.path());
  Bucket& bucket = parts.context.buckets[0];
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    for (uint32_t place = 0; place < format::kValuePlaces; ++place) bucket.values.Pin(place);
  }
  Status appended = Status::IOError("not yet");
  std::thread writer([&] { appended = parts.Append(0, 1); });
  EXPECT_TRUE(Eventually([&bucket] {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    return bucket.waiting == 1;
  }));
  EXPECT_EQ(bucket.RecordCount(), 0u);
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    bucket.values.Unpin(5);
    bucket.WakeOneIfRoom();
  }
  writer.join();
  EXPECT_TRUE(appended.ok()) << appended.ToString();
  EXPECT_EQ(bucket.RecordCount(), 1u);
  EXPECT_EQ(bucket.values.PlaceOf(0), 5u);
}

// Staging that does not verify may be neither written over the log nor built upon.
TEST(GroupWriterTest, StagingThatDoesNotVerifyRefusesTheFirstWriteOfItsBucket) {
  const TempDir dir;
  {
    LogParts parts(TinyLogOptions(), dir.path());
    parts.AppendKeys(0, 2);
  }
  LogParts parts(TinyLogOptions(), dir.path());
  ASSERT_FALSE(parts.context.buckets[0].staging_verified);
  const std::string zeros(kValueBytes, '\0');
  const uint32_t place = parts.context.buckets[0].values.PlaceOf(0);
  Overwrite(dir.Join(format::kStagingValuesName), zeros.data(), zeros.size(),
            parts.context.geometry().ValuePlaceOffset(0, place) + kValueBytes);
  EXPECT_EQ(parts.Append(0, 2).code(), Code::kCorruption);
  EXPECT_EQ(parts.context.buckets[0].RecordCount(), 2u);
  EXPECT_EQ(parts.Counts().page_cache_id, 0u) << "the next opening verifies everything";
  EXPECT_TRUE(parts.Append(1, 2).ok()) << "other buckets go on";
}

class ReadsGroups : public KeyGroupListener {
 public:
  void OnKeyGroup(uint32_t /*bucket*/, std::span<const format::KeyEntry> entries,
                  uint64_t /*record_count*/) noexcept override {
    for (const format::KeyEntry& entry : entries) (entry == format::KeyEntry{} ? empty : full)++;
  }
  int empty = 0;
  int full = 0;
};

// The group's first page was given back when its records were synced. On a full tmpfs a look at it
// through the mapping would end the process.
TEST(GroupWriterTest, APageThatWasGivenBackStaysAHole) {
  const TempDir dir(FastParent());
  const auto log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->staging_mapped());
  const uint64_t group = log->geometry().keys_per_group();
  ASSERT_GT(group, format::kPageEntries);
  ReadsGroups listener;
  log->set_key_group_listener(&listener);
  AppendMany(log.get(), 0, format::kPageEntries);
  ASSERT_TRUE(log->Sync().ok());
  log->GiveBackStaging(0);
  AppendMany(log.get(), format::kPageEntries, group);
  EXPECT_EQ(listener.empty, static_cast<int>(format::kPageEntries));
  EXPECT_EQ(listener.full, static_cast<int>(group - format::kPageEntries));
  const uint64_t offset = log->geometry().KeyPlaceOffset(0, 0);
  EXPECT_FALSE(log->files().staged_keys.MayHoldData(offset, offset + Staging::kPageBytes));
  log->set_key_group_listener(nullptr);
}

}  // namespace
}  // namespace engine_race::test
