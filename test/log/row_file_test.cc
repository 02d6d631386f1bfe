#include "engine_race/log/row_file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "test/log/log_parts_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {
namespace {

using format::RowKind;
using format::RowWords;

constexpr uint32_t kBucket = 2;
constexpr uint64_t kHeadBytes = sizeof(format::RowsHead);

class RowFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(OpenWithRows(TinyLogOptions(), dir_.path(), &files_));
  }

  const Geometry& geometry() const { return files_.identity.geometry; }
  // Rows of every kind, with the highest numbers that they may have.
  SlotTable FullTable() const {
    SlotTable table(geometry());
    table.SetRow(0, {.kind = RowKind::kRun, .number = 5});
    table.SetRow(1, {.kind = RowKind::kRun, .number = ((uint64_t{1} << 48) - 1) / 256});
    table.SetRow(3, {.kind = RowKind::kMoved,
                     .number = (uint64_t{1} << 48) - 1,
                     .record_count = 256,
                     .freed_cells = 0xff});
    table.SetRow(4, {.kind = RowKind::kMoving, .number = 77, .record_count = 1, .freed_cells = 2});
    table.SetRow(5, {.kind = RowKind::kRun, .number = 0, .freed_cells = 0x81});
    return table;
  }
  void Read(SlotTable* table, bool* damaged, uint32_t bucket = kBucket) const {
    const Status read = ReadRows(files_, bucket, table, damaged);
    ASSERT_TRUE(read.ok()) << read.ToString();
  }
  bool IsDamaged(uint32_t bucket = kBucket) const {
    SlotTable table;
    bool damaged = false;
    Read(&table, &damaged, bucket);
    return damaged;
  }
  uint64_t HeadOffset(uint32_t bucket = kBucket) const {
    return bucket * geometry().rows_stride_bytes();
  }
  uint64_t RowOffset(uint32_t index) const {
    return HeadOffset() + kHeadBytes + index * sizeof(RowWords);
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
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  EXPECT_TRUE(found.has_rows());
  EXPECT_EQ(found.row_records(), table.row_records());
  EXPECT_EQ(found.cell_records(), table.cell_records());
  EXPECT_EQ(found.rows(), table.rows());
  EXPECT_EQ(found.runs(), table.runs());
}

TEST_F(RowFileTest, EveryRowOfTheRegionReadsBack) {
  SlotTable table(geometry());
  const auto row_count = static_cast<uint32_t>(geometry().rows_per_bucket());
  for (uint32_t i = 0; i < row_count; ++i) {
    table.SetRow(i, {.kind = RowKind::kRun, .number = (uint64_t{1} << 39) + row_count - i});
  }
  for (uint32_t bucket = 0; bucket < geometry().bucket_count; ++bucket) {
    ASSERT_TRUE(WriteTable(files_, bucket, table).ok());
  }
  for (uint32_t bucket = 0; bucket < geometry().bucket_count; ++bucket) {
    SlotTable found;
    bool damaged = true;
    Read(&found, &damaged, bucket);
    EXPECT_FALSE(damaged);
    EXPECT_EQ(found.rows(), table.rows());
  }
}

TEST_F(RowFileTest, BucketsAreApart) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  for (const uint32_t bucket : {kBucket - 1, kBucket + 1}) {
    SlotTable found;
    bool damaged = true;
    Read(&found, &damaged, bucket);
    EXPECT_FALSE(damaged);
    EXPECT_FALSE(found.has_rows());
  }
}

// A head of zeros: the bucket's rows do not count yet, whatever is in them.
TEST_F(RowFileTest, RowsWithoutAHeadDoNotCount) {
  ASSERT_TRUE(
      WriteRow(files_, kBucket, 0, {.kind = RowKind::kRun, .number = uint64_t{1} << 20}).ok());
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  EXPECT_FALSE(found.has_rows());
  EXPECT_EQ(found.SlotOf(300), 300u);
}

TEST_F(RowFileTest, AHeadOfNoRowsIsNoHeadOfZeros) {
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 0).ok());
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  EXPECT_TRUE(found.has_rows());
  EXPECT_TRUE(found.rows().empty());
}

TEST_F(RowFileTest, RowsThatWereNeverWrittenAreFree) {
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 3).ok());
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  ASSERT_EQ(found.rows().size(), 3u);
  for (const Row& row : found.rows()) EXPECT_TRUE(row.free());
}

TEST_F(RowFileTest, AStoreWithoutTheFileHasNoRows) {
  files_.rows = io::File();
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  EXPECT_FALSE(found.has_rows());
  EXPECT_EQ(found.row_records(), 256u);
}

TEST_F(RowFileTest, EveryFlippedBitIsDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  ASSERT_FALSE(IsDamaged());
  std::vector<uint64_t> offsets = {HeadOffset()};
  for (const uint32_t row : {0, 1, 2, 3, 4, 5}) {
    offsets.push_back(RowOffset(row));
    // A free row has no cells.
    if (row != 2) offsets.push_back(RowOffset(row) + sizeof(uint64_t));
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

// One of a row's two words may not have been written.
TEST_F(RowFileTest, ARowOfWhichOneWordIsZeroIsDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  for (const uint32_t row : {0, 3, 4}) {
    for (const uint64_t offset : {RowOffset(row), RowOffset(row) + sizeof(uint64_t)}) {
      const uint64_t word = WordAt(offset);
      SetWordAt(offset, 0);
      EXPECT_TRUE(IsDamaged()) << row;
      SetWordAt(offset, word);
    }
  }
}

TEST_F(RowFileTest, WordsOfAnotherPlaceAreDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  RowWords words;
  ASSERT_TRUE(files_.rows.Read(&words, sizeof(words), RowOffset(0)).ok());
  ASSERT_TRUE(files_.rows.Write(&words, sizeof(words), RowOffset(2)).ok());
  EXPECT_TRUE(IsDamaged()) << "another row";

  const uint64_t stride = geometry().rows_stride_bytes();
  std::string bytes(stride, '\0');
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  ASSERT_TRUE(files_.rows.Read(bytes.data(), stride, HeadOffset()).ok());
  ASSERT_TRUE(files_.rows.Write(bytes.data(), stride, HeadOffset(kBucket + 1)).ok());
  EXPECT_FALSE(IsDamaged());
  EXPECT_TRUE(IsDamaged(kBucket + 1)) << "another bucket";
  ++files_.identity.store_id;
  EXPECT_TRUE(IsDamaged()) << "another store";
}

// A write that fails may leave its first half: the row is as it was before, or as it was to be.
TEST_F(RowFileTest, ARowThatIsHalfWrittenIsNoDamage) {
  const Row free;
  const Row run = {.kind = RowKind::kRun, .number = 6};
  const Row moving = {.kind = RowKind::kMoving, .number = 9, .record_count = 3};
  const Row moved = {.kind = RowKind::kMoved, .number = 9, .record_count = 3};
  const struct {
    Row before;
    Row after;
    Row found;
  } changes[] = {
      {free, run, free}, {free, moving, free}, {moving, moved, moved},
      {run, free, free}, {moved, free, free},
  };
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 1).ok());
  for (const auto& change : changes) {
    ASSERT_TRUE(WriteRow(files_, kBucket, 0, change.before).ok());
    const uint64_t cells = WordAt(RowOffset(0) + sizeof(uint64_t));
    ASSERT_TRUE(WriteRow(files_, kBucket, 0, change.after).ok());
    SetWordAt(RowOffset(0) + sizeof(uint64_t), cells);
    SlotTable found;
    bool damaged = true;
    Read(&found, &damaged);
    EXPECT_FALSE(damaged);
    ASSERT_EQ(found.rows().size(), 1u);
    EXPECT_EQ(found.rows()[0], change.found);
  }
}

// Freed cells of what a row held before must not free those of what it holds now.
TEST_F(RowFileTest, CellsOfAnOlderContentAreDamage) {
  const Row before = {.kind = RowKind::kRun, .number = 5, .freed_cells = 0x0f};
  ASSERT_TRUE(WriteRow(files_, kBucket, 0, before).ok());
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 1).ok());
  const uint64_t cells = WordAt(RowOffset(0) + sizeof(uint64_t));
  ASSERT_TRUE(WriteRow(files_, kBucket, 0, {.kind = RowKind::kRun, .number = 6}).ok());
  EXPECT_FALSE(IsDamaged());
  SetWordAt(RowOffset(0) + sizeof(uint64_t), cells);
  EXPECT_TRUE(IsDamaged());
}

TEST_F(RowFileTest, TwoRowsWithOneRunAreDamage) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  const Row row = {.kind = RowKind::kRun, .number = 5};
  ASSERT_TRUE(WriteRow(files_, kBucket, 2, row).ok());
  EXPECT_TRUE(IsDamaged());
  ASSERT_TRUE(WriteRow(files_, kBucket, 2, {.kind = RowKind::kMoved, .number = 5}).ok());
  EXPECT_FALSE(IsDamaged()) << "the number of moved records is no run's";
}

TEST_F(RowFileTest, MoreThanThereCanBeIsDamage) {
  const uint64_t row_count = geometry().rows_per_bucket();
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, row_count).ok());
  EXPECT_FALSE(IsDamaged());
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, row_count + 1).ok());
  EXPECT_TRUE(IsDamaged()) << "rows behind the region";
  ASSERT_TRUE(WriteRowsHead(files_, kBucket, 1).ok());
  ASSERT_TRUE(WriteRow(files_, kBucket, 0, {.kind = RowKind::kMoved, .record_count = 256}).ok());
  EXPECT_FALSE(IsDamaged());
  ASSERT_TRUE(WriteRow(files_, kBucket, 0, {.kind = RowKind::kMoved, .record_count = 257}).ok());
  EXPECT_TRUE(IsDamaged()) << "records behind the row";
}

TEST_F(RowFileTest, CellsThatARowDoesNotHaveAreDamage) {
  Options options = TinyLogOptions();
  options.value_group_bytes = 64 * kValueBytes;  // four cells a row
  const TempDir dir;
  StoreFiles files;
  ASSERT_NO_FATAL_FAILURE(OpenWithRows(options, dir.path(), &files));
  ASSERT_EQ(files.identity.geometry.cells_per_row(), 4u);
  ASSERT_TRUE(WriteRowsHead(files, 0, 1).ok());
  SlotTable table;
  bool damaged = true;
  ASSERT_TRUE(WriteRow(files, 0, 0, {.kind = RowKind::kRun, .freed_cells = 0x0f}).ok());
  ASSERT_TRUE(ReadRows(files, 0, &table, &damaged).ok());
  EXPECT_FALSE(damaged);
  ASSERT_TRUE(WriteRow(files, 0, 0, {.kind = RowKind::kRun, .freed_cells = 0x10}).ok());
  ASSERT_TRUE(ReadRows(files, 0, &table, &damaged).ok());
  EXPECT_TRUE(damaged);
}

TEST_F(RowFileTest, AFileThatCannotBeReadIsAnError) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  FailingCalls failing(CallKind::kPread, format::kRowsName, EIO);
  const ScopedHook hook(&failing);
  SlotTable table;
  bool damaged = false;
  EXPECT_EQ(ReadRows(files_, kBucket, &table, &damaged).code(), Code::kIOError);
}

// A file that an interrupted call left under that name does not count.
TEST_F(RowFileTest, ANewFileHasNoRows) {
  ASSERT_TRUE(WriteTable(files_, kBucket, FullTable()).ok());
  io::File fresh;
  ASSERT_TRUE(CreateRowFile(files_, 0600, &fresh).ok());
  files_.rows = std::move(fresh);
  EXPECT_EQ(std::filesystem::file_size(dir_.Join(format::kRowsName)), geometry().rows_file_bytes());
  SlotTable found;
  bool damaged = true;
  Read(&found, &damaged);
  EXPECT_FALSE(damaged);
  EXPECT_FALSE(found.has_rows());
}

}  // namespace
}  // namespace engine_race::test
