// What a follower makes of counts, rows and entries that its writer changes while it reads them.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "test/log/follower_fixture.h"
#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

using format::WordKind;

class FollowerReadingsTest : public FollowerTest {
 protected:
  // A word of a line of counts.
  static char* WordAt(char* line, WordKind kind) {
    return line + static_cast<size_t>(kind) * sizeof(uint64_t);
  }
  static bool IsLineOfBucket0(size_t size_bytes, off_t offset) {
    return offset == 0 && size_bytes == sizeof(format::BucketCounts);
  }
  // Three rows, the first of which was moved. `count_` records are there.
  void FollowRows() {
    ASSERT_NO_FATAL_FAILURE(FollowAndCut(3 * kRow));
    ASSERT_NO_FATAL_FAILURE(MoveRow(0));
    ASSERT_TRUE(Refresh().ok());
    ASSERT_NO_FATAL_FAILURE(Cut());
    listener_->detach_count = 0;
  }
  // So many records are new that the rows do not hold them yet.
  void AppendARow() { ASSERT_NO_FATAL_FAILURE(Append(kRow)); }
  // A reading of rows brings these, and their head before.
  static bool AreImages(size_t size_bytes) { return size_bytes >= sizeof(format::RowImages); }

  static constexpr uint64_t kRow = 256;
};

// A line has words from before and from after a record.
TEST_F(FollowerReadingsTest, ATornLineIsReadAgain) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  format::BucketCounts old{};
  {
    UniqueFd fd;
    ASSERT_TRUE(
        sys::OpenAt(AT_FDCWD, dir_.Join(format::kStagingCountsName), O_RDONLY, 0, &fd).ok());
    ASSERT_TRUE(sys::PreadFull(fd.get(), &old, sizeof(old), 0).ok());
  }
  ASSERT_NO_FATAL_FAILURE(Append(1));
  int line_count = 0;
  ChangedReads reads(format::kStagingCountsName,
                     [&](char* bytes, size_t size, off_t offset, uint64_t) {
                       if (!IsLineOfBucket0(size, offset) || ++line_count != 2) return;
                       char* const from = WordAt(reinterpret_cast<char*>(&old), WordKind::kRecords);
                       std::memcpy(WordAt(bytes, WordKind::kRecords), from, sizeof(uint64_t));
                     });
  const ScopedHook hook(&reads);
  ASSERT_TRUE(Refresh().ok());
  EXPECT_GE(line_count, 4);
  EXPECT_EQ(follower_->RecordCount(0), 11u);
  EXPECT_EQ(listener_->append_count, 1u);
  follower_->reader().DetachListener(0);
}

// The opening goes on without the bucket, and the next Refresh takes it over.
TEST_F(FollowerReadingsTest, CountsThatChangeAtEachReadingLeaveTheBucketOut) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  {
    ChangedReads reads(format::kStagingCountsName,
                       [](char* bytes, size_t size, off_t offset, uint64_t number) {
                         if (IsLineOfBucket0(size, offset)) std::memcpy(bytes, &number, 8);
                       });
    const ScopedHook hook(&reads);
    ASSERT_NO_FATAL_FAILURE(Follow());
  }
  EXPECT_FALSE(follower_->BucketDamaged(0));
  NullListener listener;
  BucketCut cut;
  const Status missing = follower_->reader().CutBucket(0, /*first_sequence=*/0, &listener, &cut);
  EXPECT_EQ(missing.code(), Code::kIOError);
  EXPECT_NE(missing.message().find("has changed at each reading"), std::string::npos)
      << missing.ToString();
  EXPECT_TRUE(follower_->reader().CutBucket(1, /*first_sequence=*/0, &listener, &cut).ok());
  follower_->reader().DetachListener(1);
  ASSERT_TRUE(Refresh().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAll(10));
}

// Each word passes its check, and the staged group has no place.
TEST_F(FollowerReadingsTest, CountsThatNameNoPlaceAreDamage) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(10));
  const uint64_t seed_id = writer_->files().identity.seed_id();
  ASSERT_NO_FATAL_FAILURE(SetWord(dir_.path(), seed_id, 0, WordKind::kKeyPlaces,
                                  ~uint64_t{0} >> (64 - PayloadBits(WordKind::kKeyPlaces))));
  ASSERT_NO_FATAL_FAILURE(Follow());
  EXPECT_TRUE(follower_->BucketDamaged(0));
  EXPECT_FALSE(follower_->BucketDamaged(1));
}

// After a failed flush the counts name another page cache, or none.
TEST_F(FollowerReadingsTest, CountsOfAnotherPageCacheAreInDoubt) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(3 * kRow));
  const uint64_t reuse_count = follower_->ReuseCount(0);
  ASSERT_NO_FATAL_FAILURE(MoveRow(0));
  const uint64_t seed_id = writer_->files().identity.seed_id();
  ASSERT_NO_FATAL_FAILURE(SetWord(dir_.path(), seed_id, 0, WordKind::kPageCache, 12345));
  EXPECT_EQ(Refresh().code(), Code::kIncomplete);
  EXPECT_EQ(follower_->ReuseCount(0), reuse_count);
  // To a reader kIncomplete says something else.
  EXPECT_TRUE(IsReused(0, reuse_count));
  EXPECT_EQ(failure_.code(), Code::kIOError);
  EXPECT_NE(failure_.message().find("in doubt"), std::string::npos) << failure_.ToString();
  EXPECT_EQ(listener_->detach_count, 0u);
  follower_->reader().DetachListener(0);
}

// The writer stands still in the middle of a row.
TEST_F(FollowerReadingsTest, RowsThatAreWholeAtLastAreNoDamage) {
  ASSERT_NO_FATAL_FAILURE(FollowRows());
  ASSERT_NO_FATAL_FAILURE(AppendARow());
  uint64_t image_count = 0;
  ChangedReads reads(format::kRowsName, [&](char* bytes, size_t size, off_t, uint64_t) {
    if (AreImages(size) && ++image_count < 40) std::memset(bytes, 1, 32);
  });
  const ScopedHook hook(&reads);
  const Status refreshed = Refresh();
  ASSERT_TRUE(refreshed.ok()) << refreshed.ToString();
  EXPECT_GE(image_count, 40u);
  EXPECT_FALSE(follower_->BucketDamaged(0));
  ASSERT_NO_FATAL_FAILURE(ExpectAll(4 * kRow));
}

// No two pairs of readings agree, and none of the rows is whole.
TEST_F(FollowerReadingsTest, RowsThatChangeAtEachReadingAreNoDamage) {
  ASSERT_NO_FATAL_FAILURE(FollowRows());
  ASSERT_NO_FATAL_FAILURE(AppendARow());
  {
    uint64_t image_count = 0;
    ChangedReads reads(format::kRowsName, [&](char* bytes, size_t size, off_t, uint64_t) {
      if (AreImages(size)) std::memset(bytes, static_cast<int>(1 + image_count++ / 2 % 200), 32);
    });
    const ScopedHook hook(&reads);
    const Status refreshed = Refresh();
    EXPECT_EQ(refreshed.code(), Code::kIOError);
    EXPECT_NE(refreshed.message().find("change at each reading"), std::string::npos)
        << refreshed.ToString();
    EXPECT_GT(image_count, 100u);
  }
  EXPECT_FALSE(follower_->BucketDamaged(0));
  ASSERT_TRUE(Refresh().ok());
  ASSERT_NO_FATAL_FAILURE(ExpectAll(4 * kRow));
}

// Many readings agree that the rows are damaged.
TEST_F(FollowerReadingsTest, RowsThatStayDamagedAreDamage) {
  ASSERT_NO_FATAL_FAILURE(FollowRows());
  ASSERT_NO_FATAL_FAILURE(AppendARow());
  ChangedReads reads(format::kRowsName, [](char* bytes, size_t size, off_t, uint64_t) {
    if (AreImages(size)) std::memset(bytes, 1, 32);
  });
  const ScopedHook hook(&reads);
  EXPECT_EQ(Refresh().code(), Code::kCorruption);
  EXPECT_GE(reads.count, 80u);
  follower_->reader().DetachListener(0);
}

// The entries were in staging when the counts were read, and are in the log by now.
TEST_F(FollowerReadingsTest, StagedEntriesThatAreGoneAreLookedForAgain) {
  for (const uint64_t gone_count : {1, 2}) {
    SCOPED_TRACE(gone_count);
    next_key_ = 0;
    std::filesystem::remove_all(dir_.path());
    std::filesystem::create_directory(dir_.path());
    ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
    ASSERT_NO_FATAL_FAILURE(Append(5));
    ChangedReads reads(format::kStagingKeysName,
                       [&](char* bytes, size_t size, off_t, uint64_t number) {
                         if (number < gone_count) std::memset(bytes, 0, size);
                       });
    const ScopedHook hook(&reads);
    ASSERT_TRUE(Refresh().ok());
    EXPECT_EQ(reads.count, gone_count + 1);
    EXPECT_EQ(follower_->RecordCount(0), 15u);
    // Twice in a row: some of them were superseded or moved.
    EXPECT_EQ(listener_->append_count, gone_count == 1 ? 5u : 0u);
    EXPECT_EQ(listener_->detach_count, gone_count == 1 ? 0u : 1u);
    if (gone_count == 1) follower_->reader().DetachListener(0);
    ASSERT_NO_FATAL_FAILURE(ExpectAll(15));
  }
}

// The device, not the writer, is to blame.
TEST_F(FollowerReadingsTest, StagedEntriesThatCannotBeReadFailARefresh) {
  ASSERT_NO_FATAL_FAILURE(FollowAndCut(10));
  ASSERT_NO_FATAL_FAILURE(Append(5));
  {
    FailingCalls failing(CallKind::kPread, format::kStagingKeysName, EIO);
    const ScopedHook hook(&failing);
    const Status refreshed = Refresh();
    EXPECT_EQ(refreshed.code(), Code::kIOError);
    EXPECT_EQ(refreshed.error(), EIO) << refreshed.ToString();
    EXPECT_EQ(failing.count, 1);
  }
  ASSERT_TRUE(Refresh().ok());
  EXPECT_EQ(listener_->append_count, 5u);
  follower_->reader().DetachListener(0);
  ASSERT_NO_FATAL_FAILURE(ExpectAll(15));
}

// Two groups were written at once, and the later one had its segment first. The follower has read
// the table in between.
TEST_F(FollowerReadingsTest, ASegmentBeforeOthersIsLookedForAgain) {
  ASSERT_NO_FATAL_FAILURE(OpenWriter());
  ASSERT_NO_FATAL_FAILURE(Append(2 * kRow + 10));
  {
    ChangedReads reads(format::kSegmentTableName,
                       [](char* bytes, size_t, off_t offset, uint64_t number) {
                         if (number == 0 && offset == 0) {
                           std::memset(bytes, 0, sizeof(format::SegmentEntry));
                         }
                       });
    const ScopedHook hook(&reads);
    ASSERT_NO_FATAL_FAILURE(Follow());
    EXPECT_GT(reads.count, 0u);
  }
  ASSERT_NO_FATAL_FAILURE(ExpectAll(2 * kRow + 10));
}

}  // namespace
}  // namespace engine_race::test
