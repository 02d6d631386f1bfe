// Where slots lie: buckets whose segments are mixed, files that are short or not open, space that
// is given back.
#include "engine_race/log/slot_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "test/log/log_parts_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kSlots = 5 * kTinyRowRecords;

class SlotFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    Open();
    ASSERT_TRUE(Region::Allocate(kSlots * kValueBytes, /*huge_pages=*/false, &buffer_).ok());
    // The segments of two buckets take turns.
    for (uint64_t slot = 0; slot < kSlots; slot += kTinyRowRecords) {
      for (const uint32_t bucket : {0, 1}) ASSERT_TRUE(slots().Give(bucket, slot, 1).ok());
    }
  }
  void Open() {
    files_ = StoreFiles();
    files_ = OpenedFiles(TinyLogOptions(), dir_.path());
  }
  const SlotFiles& slots() const { return files_.slots; }
  static char ByteOf(uint32_t bucket, uint64_t slot) {
    return static_cast<char>(1 + (bucket * 131 + slot) % 251);
  }
  void WriteValues(uint32_t bucket, uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      std::fill_n(buffer_.data() + i * kValueBytes, kValueBytes, ByteOf(bucket, first + i));
    }
    ASSERT_TRUE(slots().WriteValues(bucket, first, count, buffer_.data()).ok());
  }
  void ExpectValues(uint32_t bucket, uint64_t first, uint64_t count, bool zeros = false) {
    std::fill_n(buffer_.data(), count * kValueBytes, '\xff');
    ASSERT_TRUE(slots().ReadValues(bucket, first, count, buffer_.data()).ok());
    for (uint64_t i = 0; i < count; ++i) {
      const char byte = zeros ? '\0' : ByteOf(bucket, first + i);
      ASSERT_EQ(std::count(buffer_.data() + i * kValueBytes, buffer_.data() + (i + 1) * kValueBytes,
                           byte),
                static_cast<ptrdiff_t>(kValueBytes))
          << first + i;
    }
  }

  TempDir dir_;
  StoreFiles files_;
  Region buffer_;
};

TEST_F(SlotFilesTest, ABucketIsReadAcrossItsSegments) {
  for (const uint32_t bucket : {0, 1}) ASSERT_NO_FATAL_FAILURE(WriteValues(bucket, 0, kSlots));
  for (const uint32_t bucket : {0, 1}) {
    ExpectValues(bucket, 0, kSlots);
    ExpectValues(bucket, kTinyRowRecords - 3, kTinyRowRecords + 7);
    EXPECT_EQ(slots().LocateValues(bucket, 3, kSlots).slot_count, kTinyRowRecords - 3)
        << "the other bucket's segment is next";
  }
  Open();
  ExpectValues(0, 0, kSlots);
  ExpectValues(1, 7, 2 * kTinyRowRecords);
}

TEST_F(SlotFilesTest, NeighbouringSegmentsAreOnePiece) {
  ASSERT_TRUE(slots().Give(2, 0, 3 * kTinyRowRecords).ok());
  EXPECT_EQ(slots().LocateValues(2, 5, 3 * kTinyRowRecords - 5).slot_count,
            3 * kTinyRowRecords - 5);
  EXPECT_EQ(slots().LocateKeys(2, 5, kTinyRowRecords).slot_count, kTinyRowRecords);
  ASSERT_NO_FATAL_FAILURE(WriteValues(2, 0, 3 * kTinyRowRecords));
  ExpectValues(2, 0, 3 * kTinyRowRecords);
}

TEST_F(SlotFilesTest, WhatHasNoPlaceReadsAsZeros) {
  EXPECT_FALSE(slots().LocateValues(0, kSlots).found());
  EXPECT_EQ(slots().SlotEnd(0), kSlots);
  ExpectValues(0, kSlots, 3, /*zeros=*/true);
  EXPECT_FALSE(slots().MayHoldValues(0, kSlots, kTinyRowRecords));
  ASSERT_NO_FATAL_FAILURE(WriteValues(0, kSlots, 3));
  ExpectValues(0, kSlots, 3);
}

// A power loss may keep the entry of a segment and not the size of the file.
TEST_F(SlotFilesTest, ShortFilesGrowAndReadAsZeros) {
  ASSERT_NO_FATAL_FAILURE(WriteValues(0, 0, kSlots));
  const SlotLocation last = slots().LocateValues(0, kSlots - 1);
  const std::string path = dir_.Join(last.file->name());
  const uint64_t size_bytes = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, last.offset - 4 * kValueBytes);
  ExpectValues(0, kSlots - 5, 5, /*zeros=*/true);
  Open();
  EXPECT_GE(std::filesystem::file_size(path), last.offset + kValueBytes);
  EXPECT_LE(std::filesystem::file_size(path), size_bytes);
  ExpectValues(0, kSlots - 5, 5, /*zeros=*/true);
  ExpectValues(0, 0, kTinyRowRecords);
}

// Buckets 2 and 3 are in the second file.
TEST_F(SlotFilesTest, AFileIsOpenFromItsFirstSegmentOn) {
  EXPECT_TRUE(slots().is_open(0));
  EXPECT_FALSE(slots().is_open(1));
  EXPECT_FALSE(slots().value_file(1).valid());
  std::vector<std::string> opened;
  files_.slots.set_on_open([&](uint32_t file) {
    opened.push_back(slots().value_file(file).name());
    return Status::Ok();
  });
  ASSERT_NO_FATAL_FAILURE(WriteValues(3, 0, 1));
  ASSERT_NO_FATAL_FAILURE(WriteValues(2, 0, kTinyRowRecords));
  EXPECT_EQ(opened, std::vector<std::string>{"value_01"});
  EXPECT_TRUE(slots().is_open(1));
  Open();
  EXPECT_TRUE(slots().is_open(1));
  ExpectValues(3, 0, 1);
}

TEST_F(SlotFilesTest, AFileThatCannotBeOpenedTakesNoSegment) {
  std::filesystem::rename(dir_.Join("value_01"), dir_.Join("hidden"));
  EXPECT_FALSE(slots().Give(3, 0, 1).ok());
  EXPECT_FALSE(slots().LocateValues(3, 0).found());
  EXPECT_FALSE(slots().is_open(1));
  std::filesystem::rename(dir_.Join("hidden"), dir_.Join("value_01"));
  ASSERT_NO_FATAL_FAILURE(WriteValues(3, 0, 1));
  ExpectValues(3, 0, 1);
}

// A power loss may have kept entries in a file that the table has no segment of.
TEST_F(SlotFilesTest, AllFilesAreOpenedWhereStrayEntriesAreErased) {
  const std::string path = dir_.Join("key_01");
  Overwrite(path, "stray", 5, 4096);
  ASSERT_TRUE(slots().EraseUngiven().ok());
  EXPECT_TRUE(slots().is_open(1));
  char byte = 1;
  io::File stray;
  ASSERT_TRUE(io::File::OpenPath(path, io::Access::kRead, io::Caching::kBuffered, &stray).ok());
  ASSERT_TRUE(stray.Read(&byte, 1, 4096).ok());
  EXPECT_EQ(byte, 0);
}

TEST_F(SlotFilesTest, PunchedValuesHoldNoSpaceAndTheOthersStay) {
  ASSERT_NO_FATAL_FAILURE(WriteValues(0, 0, kSlots));
  ASSERT_NO_FATAL_FAILURE(WriteValues(1, 0, kSlots));
  bool supported = false;
  ASSERT_TRUE(slots().PunchValues(0, 8, kSlots - 16, &supported).ok());
  if (!supported) GTEST_SKIP() << "no holes here";
  EXPECT_FALSE(slots().MayHoldValues(0, 8, kSlots - 16));
  EXPECT_TRUE(slots().MayHoldValues(0, 0, kSlots));
  ExpectValues(0, 8, kSlots - 16, /*zeros=*/true);
  ExpectValues(0, 0, 8);
  ExpectValues(1, 0, kSlots);
}

}  // namespace
}  // namespace engine_race::test
