#include "engine_race/log/row_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "test/faults/fault_plan.h"
#include "test/index/refused_memory.h"
#include "test/log/log_parts_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

using format::RowImages;
using format::RowKind;

constexpr uint32_t kBucket = 2;

class RowFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files_));
    // With random ids a damaged word would pass its check by chance, in one run of many.
    files_.identity.store_id = 4711;
    for (uint32_t bucket = 0; bucket < geometry().bucket_count; ++bucket) {
      ASSERT_TRUE(WriteRowsHead(files_, bucket, format::kNoRows, 0).ok());
      // Those of FullTable, and none is lost because it is free.
      ASSERT_TRUE(files_.slots.Give(bucket, 0, 6 * geometry().row_records()).ok());
    }
  }

  const Geometry& geometry() const { return files_.identity.geometry; }
  Row RunRow(uint64_t number) const {
    const SlotBits all = SlotBits::First(geometry().row_records());
    return {.kind = RowKind::kUsed, .number = number, .path = all, .held = all};
  }
  // Rows of every kind, with the highest numbers that they may have.
  SlotTable FullTable() const {
    SlotTable table(geometry());
    table.SetRow(0, RunRow(5));
    table.SetRow(1, RunRow((uint64_t{1} << 48) - 257));
    table.SetRow(2, {.birth = 12});
    table.SetRow(3, {.kind = RowKind::kUsed,
                     .held = SlotBits::First(256),
                     .birth = (uint64_t{1} << 50) - 1,
                     .horizon = (uint64_t{1} << 48) - 1,
                     .seal = (uint64_t{1} << 48) - 1,
                     .moved_at = (uint64_t{1} << 50) - 1});
    table.SetRow(4, {.kind = RowKind::kMoving, .held = SlotBits::First(1), .horizon = 77});
    Row filled_again = RunRow(1000);
    filled_again.path = SlotBits::First(200) - SlotBits::First(150);
    table.SetRow(5, filled_again);
    return table;
  }
  BucketRows Found(uint32_t bucket = kBucket) const {
    BucketRows found{.table = {}, .damaged = true};
    const Status read = ReadRows(files_, bucket, {&found, 1});
    EXPECT_TRUE(read.ok()) << read.ToString();
    return found;
  }
  SlotTable SoundTable(uint32_t bucket = kBucket) const {
    BucketRows found = Found(bucket);
    EXPECT_FALSE(found.damaged);
    return std::move(found.table);
  }
  bool IsDamaged(uint32_t bucket = kBucket) const { return Found(bucket).damaged; }
  void WriteNew(uint32_t first, const std::vector<Row>& rows) const {
    ASSERT_TRUE(WriteNewRows(files_, kBucket, first, rows).ok());
  }
  uint64_t HeadOffset(uint32_t bucket = kBucket) const { return geometry().RowHeadOffset(bucket); }
  uint64_t RowOffset(uint32_t index, uint32_t bucket = kBucket) const {
    uint64_t number = 0;
    EXPECT_TRUE(files_.slots.NumberOf(bucket, index, &number));
    return geometry().RowsOffset(number);
  }
  uint64_t WordAt(uint64_t offset) const {
    uint64_t word = 0;
    EXPECT_TRUE(files_.rows.Read(&word, sizeof(word), offset).ok());
    return word;
  }
  void SetWordAt(uint64_t offset, uint64_t word) const {
    ASSERT_TRUE(files_.rows.Write(&word, sizeof(word), offset).ok());
  }

  const TempDir dir_;
  StoreFiles files_;
};

TEST_F(RowFileTest, ATableReadsBackAsItWasWritten) {
  const SlotTable table = FullTable();
  ASSERT_TRUE(WriteTable(files_, kBucket, table).ok());
  const SlotTable found = SoundTable();
  EXPECT_TRUE(found.has_rows());
  EXPECT_EQ(found.row_records(), table.row_records());
  EXPECT_EQ(found.rows(), table.rows());
  EXPECT_EQ(found.runs(), table.runs());
  EXPECT_EQ(found.births(), (uint64_t{1} << 50) - 1);
}

TEST_F(RowFileTest, EveryRowOfTheRegionReadsBack) {
  SlotTable table(geometry());
  const auto row_count = static_cast<uint32_t>(geometry().rows_per_bucket());
  for (uint32_t i = 0; i < row_count; ++i) {
    table.SetRow(i, RunRow((uint64_t{1} << 47) + (row_count - i) * 256));
  }
  for (uint32_t bucket = 0; bucket < geometry().bucket_count; ++bucket) {
    ASSERT_TRUE(WriteTable(files_, bucket, table).ok());
  }
  for (uint32_t bucket = 0; bucket < geometry().bucket_count; ++bucket) {
    const SlotTable found = SoundTable(bucket);
    EXPECT_EQ(found.rows(), table.rows());
  }
}

// One of them has a damaged row, and the last row of another one is cut off.
TEST_F(RowFileTest, OfBucketsThatAreReadTogetherTheSoundOnesReadBack) {
  const SlotTable table = FullTable();
  for (const uint32_t bucket : {1u, 2u, 3u}) {
    ASSERT_TRUE(WriteTable(files_, bucket, table).ok());
  }
  std::array<BucketRows, 4> found;
  ASSERT_TRUE(ReadRows(files_, 0, found).ok());
  EXPECT_FALSE(found[0].damaged);
  EXPECT_FALSE(found[0].table.has_rows());
  for (const uint32_t bucket : {1u, 2u, 3u}) {
    EXPECT_FALSE(found[bucket].damaged) << bucket;
    EXPECT_EQ(found[bucket].table.rows(), table.rows()) << bucket;
  }
  SetWordAt(RowOffset(1, 2), WordAt(RowOffset(1, 2)) ^ 1);
  ASSERT_TRUE(files_.rows.Truncate(RowOffset(5, 3) + sizeof(RowImages) - 1).ok());
  ASSERT_TRUE(ReadRows(files_, 0, found).ok());
  EXPECT_FALSE(found[1].damaged);
  EXPECT_EQ(found[1].table.rows(), table.rows());
  EXPECT_TRUE(found[2].damaged);
  EXPECT_TRUE(found[3].damaged);
}

TEST_F(RowFileTest, OneRowReadsBack) {
  bool has_rows = true;
  ASSERT_TRUE(ReadHasRows(files_, kBucket, &has_rows).ok());
  EXPECT_FALSE(has_rows);
  const SlotTable table = FullTable();
  ASSERT_TRUE(WriteTable(files_, kBucket, table).ok());
  ASSERT_TRUE(ReadHasRows(files_, kBucket, &has_rows).ok());
  EXPECT_TRUE(has_rows);
  // A head that is damaged may be one of rows.
  const uint64_t head = WordAt(HeadOffset());
  ASSERT_NO_FATAL_FAILURE(SetWordAt(HeadOffset(), 0));
  has_rows = false;
  ASSERT_TRUE(ReadHasRows(files_, kBucket, &has_rows).ok());
  EXPECT_TRUE(has_rows);
  ASSERT_NO_FATAL_FAILURE(SetWordAt(HeadOffset(), head));
  Row row;
  for (uint32_t i = 0; i < table.rows().size(); ++i) {
    ASSERT_TRUE(ReadRow(files_, kBucket, i, &row).ok());
    EXPECT_EQ(row, table.rows()[i]) << i;
  }
  // The image with the higher number counts.
  ASSERT_TRUE(WriteRow(files_, kBucket, 0, RunRow(9)).ok());
  ASSERT_TRUE(ReadRow(files_, kBucket, 0, &row).ok());
  EXPECT_EQ(row, RunRow(9));
}

TEST_F(RowFileTest, BucketsAreApart) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  for (const uint32_t bucket : {kBucket - 1, kBucket + 1}) {
    const SlotTable found = SoundTable(bucket);
    EXPECT_FALSE(found.has_rows());
  }
}

// A head of zeros: the bucket's rows do not count yet, whatever is in them.
TEST_F(RowFileTest, RowsWithoutAHeadDoNotCount) {
  ASSERT_NO_FATAL_FAILURE(WriteNew(0, {RunRow(uint64_t{1} << 20)}));
  const SlotTable found = SoundTable();
  EXPECT_FALSE(found.has_rows());
  EXPECT_EQ(found.SlotOf(300), 300u);
}

TEST_F(RowFileTest, AHeadOfNoRowsIsNoHeadOfZeros) {
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 0, 0).ok());
  const SlotTable found = SoundTable();
  EXPECT_TRUE(found.has_rows());
  EXPECT_TRUE(found.rows().empty());
}

TEST_F(RowFileTest, ARowThatWasNeverWrittenIsDamage) {
  ASSERT_NO_FATAL_FAILURE(WriteNew(0, {RunRow(5), Row()}));
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 2, 0).ok());
  EXPECT_FALSE(IsDamaged());
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 3, 0).ok());
  EXPECT_TRUE(IsDamaged());
  EXPECT_EQ(WriteRow(files_, kBucket, 2, RunRow(500)).code(), Code::kCorruption);
  ASSERT_NO_FATAL_FAILURE(WriteNew(2, {Row()}));
  EXPECT_FALSE(IsDamaged());
}

// However often each row was written. A damaged newer image must not bring back what an older one
// says.
TEST_F(RowFileTest, ZerosAreDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  for (uint64_t i = 0; i < 5; ++i) {
    for (uint32_t row = 0; row < i; ++row) {
      ASSERT_TRUE(WriteRow(files_, kBucket, row, FullTable().rows()[row]).ok());
    }
  }
  ASSERT_FALSE(IsDamaged());
  const uint64_t end = RowOffset(5) + sizeof(RowImages);
  std::string before(end - HeadOffset(), '\0');
  ASSERT_TRUE(files_.rows.Read(before.data(), before.size(), HeadOffset()).ok());
  for (const uint64_t size : {8, 32, 64, 128, 256, 512, 1024}) {
    // Behind the sector with the head.
    for (uint64_t offset = std::max<uint64_t>(size, 512); offset < before.size(); offset += size) {
      std::string bytes = before;
      for (uint64_t i = offset; i < std::min(offset + size, bytes.size()); ++i) bytes[i] = '\0';
      if (bytes == before) continue;
      ASSERT_TRUE(files_.rows.Write(bytes.data(), bytes.size(), HeadOffset()).ok());
      EXPECT_TRUE(IsDamaged()) << size << " bytes of zeros at " << offset;
    }
  }
}

TEST_F(RowFileTest, AnImageInThePlaceOfTheOtherOneIsDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  RowImages images;
  ASSERT_TRUE(files_.rows.Read(&images, sizeof(images), RowOffset(1)).ok());
  for (const uint32_t which : {0, 1}) {
    RowImages copied = images;
    copied.images[which] = images.images[1 - which];
    ASSERT_TRUE(files_.rows.Write(&copied, sizeof(copied), RowOffset(1)).ok());
    EXPECT_TRUE(IsDamaged()) << which;
  }
}

TEST_F(RowFileTest, AStoreWithoutTheFileHasNoRows) {
  files_.rows = io::File();
  const SlotTable found = SoundTable();
  EXPECT_FALSE(found.has_rows());
  EXPECT_EQ(found.row_records(), 256u);
}

TEST_F(RowFileTest, EveryFlippedBitIsDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  ASSERT_FALSE(IsDamaged());
  std::vector<uint64_t> offsets = {HeadOffset()};
  for (const uint32_t row : {0, 1, 2, 3, 4, 5}) {
    for (uint64_t word = 0; word < sizeof(RowImages) / sizeof(uint64_t); ++word) {
      offsets.push_back(RowOffset(row) + word * sizeof(uint64_t));
    }
  }
  for (const uint64_t offset : offsets) {
    const uint64_t word = WordAt(offset);
    for (int bit = 0; bit < 64; ++bit) {
      SetWordAt(offset, word ^ uint64_t{1} << bit);
      EXPECT_TRUE(IsDamaged()) << "offset " << offset << ", bit " << bit;
    }
    SetWordAt(offset, word);
  }
  EXPECT_FALSE(IsDamaged());
}

// Each write of a row fails at each of its calls, which leaves half of the bytes.
TEST_F(RowFileTest, ARowThatIsWrittenHalfIsAsItWas) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  for (uint64_t round = 0; round < 4; ++round) {
    const SlotTable before = SoundTable();
    const Row row = RunRow(2000 + 300 * round);
    bool failed = true;
    for (uint64_t nth = 1; failed; ++nth) {
      ASSERT_LT(nth, 20U) << "it fails without a fault";
      FaultPlan plan(dir_.path(), Fault::kIoError, nth, Repeat::kOnce);
      const ScopedHook hook(&plan);
      plan.Arm();
      failed = !WriteRow(files_, kBucket, 1, row).ok();
      plan.Disarm();
      if (!failed) continue;
      SCOPED_TRACE(plan.ToString());
      EXPECT_EQ(SoundTable().rows(), before.rows());
    }
    EXPECT_EQ(SoundTable().rows()[1].number, row.number);
  }
}

TEST_F(RowFileTest, WordsOfAnotherPlaceAreDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  RowImages words;
  RowImages own;
  ASSERT_TRUE(files_.rows.Read(&own, sizeof(own), RowOffset(2)).ok());
  ASSERT_TRUE(files_.rows.Read(&words, sizeof(words), RowOffset(0)).ok());
  ASSERT_TRUE(files_.rows.Write(&words, sizeof(words), RowOffset(2)).ok());
  EXPECT_TRUE(IsDamaged()) << "another row";
  EXPECT_EQ(WriteRow(files_, kBucket, 2, RunRow(9)).code(), Code::kCorruption);
  ASSERT_TRUE(files_.rows.Write(&own, sizeof(own), RowOffset(2)).ok());

  SetWordAt(HeadOffset(kBucket + 1), WordAt(HeadOffset()));
  EXPECT_FALSE(IsDamaged());
  EXPECT_TRUE(IsDamaged(kBucket + 1)) << "another bucket";
  ++files_.identity.store_id;
  EXPECT_TRUE(IsDamaged()) << "another store";
}

TEST_F(RowFileTest, TwoRowsWithOneRunAreDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  ASSERT_TRUE(WriteRow(files_, kBucket, 2, RunRow(5)).ok());
  EXPECT_TRUE(IsDamaged());
  Row kept = RunRow(5);
  kept.path = {};
  ASSERT_TRUE(WriteRow(files_, kBucket, 2, kept).ok());
  EXPECT_FALSE(IsDamaged()) << "a row without a run has no run's number";
}

TEST_F(RowFileTest, MoreThanThereCanBeIsDamage) {
  const uint64_t row_count = geometry().rows_per_bucket();
  ASSERT_NO_FATAL_FAILURE(WriteNew(0, std::vector<Row>(row_count)));
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, row_count, 0).ok());
  EXPECT_FALSE(IsDamaged());
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, row_count + 1, 0).ok());
  // Also where they have places.
  ASSERT_NO_FATAL_FAILURE(WriteNew(static_cast<uint32_t>(row_count), {Row()}));
  EXPECT_TRUE(IsDamaged()) << "rows behind the bucket";
}

// The check of a head does not depend on the table of segments.
TEST_F(RowFileTest, RowsWithoutAPlaceTakeNoMemory) {
  ASSERT_NO_FATAL_FAILURE(WriteNew(0, {RunRow(5), Row()}));
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, geometry().rows_per_bucket(), 0).ok());
  static size_t most_bytes;
  most_bytes = 0;
  const WatchMemory watch([](size_t size) { most_bytes = std::max(most_bytes, size); });
  EXPECT_TRUE(IsDamaged());
  EXPECT_LT(most_bytes, geometry().rows_per_bucket() * sizeof(Row) / 2);
}

TEST_F(RowFileTest, SlotsThatARowDoesNotHaveAreDamage) {
  Options options = TinyLogOptions();
  options.key_group_bytes = 4096;
  const TempDir dir;
  StoreFiles files;
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(options, dir.path(), &files));
  ASSERT_EQ(files.identity.geometry.row_records(), 128u);
  ASSERT_TRUE(WriteRowsHead(files, 0, 1, 0).ok());
  BucketRows found{.table = {}, .damaged = true};
  Row row = {.kind = RowKind::kUsed, .held = SlotBits::First(128)};
  ASSERT_TRUE(WriteNewRows(files, 0, 0, {&row, 1}).ok());
  ASSERT_TRUE(ReadRows(files, 0, {&found, 1}).ok());
  EXPECT_FALSE(found.damaged);
  row.held.Add(128);
  ASSERT_TRUE(WriteRow(files, 0, 0, row).ok());
  ASSERT_TRUE(ReadRows(files, 0, {&found, 1}).ok());
  EXPECT_TRUE(found.damaged);
}

TEST_F(RowFileTest, AFileThatCannotBeReadIsAnError) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  FailingCalls failing(CallKind::kPread, format::kRowsName, EIO);
  const ScopedHook hook(&failing);
  BucketRows found;
  EXPECT_EQ(ReadRows(files_, kBucket, {&found, 1}).code(), Code::kIOError);
}

// A file that an interrupted call left under that name does not count.
TEST_F(RowFileTest, ANewFileHasNoRows) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  io::File fresh;
  ASSERT_TRUE(CreateRowFile(files_, 0600, &fresh).ok());
  files_.rows = std::move(fresh);
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(format::kRowsName)), geometry().RowsOffset(0));
  const SlotTable found = SoundTable();
  EXPECT_FALSE(found.has_rows());
}

}  // namespace
}  // namespace engine_race::test
