// Exports of bin/store.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/tools/store_rows.h"
#include "test/harness/tools/row_files.h"
#include "test/harness/tools/transfer_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;
using test::KeyOf;

class StoreExportTest : public TransferFixture {};

TEST_F(StoreExportTest, ExportsAreFilesThatImportsTake) {
  const std::vector<uint64_t> keys = SpreadKeys();
  ASSERT_TRUE(Import(Written("records", RecordsOf(keys)), GoOn, &report_).ok());
  const Records expected = Expected(keys);
  ASSERT_TRUE(Export(Of("out"), GoOn, &report_).ok());
  EXPECT_EQ(report_.record_count, kCount);
  std::string records;
  std::string rows = NpyStart("'|u1'", "(100, 4096)");
  std::vector<uint64_t> sorted_keys;
  for (const auto& [key, value] : expected) {
    records += KeyOf(key) + value;
    rows += value;
    sorted_keys.push_back(key);
  }
  EXPECT_EQ(ReadWhole(dir_.Join("out")), records);
  ASSERT_TRUE(Export(Of("out.npy", "out_keys.npy"), GoOn, &report_).ok());
  EXPECT_EQ(ReadWhole(dir_.Join("out.npy")), rows);
  EXPECT_EQ(ReadWhole(dir_.Join("out_keys.npy")), NpyOfKeys(sorted_keys));
  for (const char* const rest : {"out.part", "out.note", "out.npy.part", "out.npy.note"}) {
    EXPECT_FALSE(fs::exists(dir_.Join(rest))) << rest;
  }
}

TEST_F(StoreExportTest, AnArrayWithoutKeysIsOfRowNumbersAlone) {
  ASSERT_TRUE(Import(Written("rows.npy", NpyOfValues(kCount)), GoOn, &report_).ok());
  ASSERT_TRUE(Export(Of("out.npy"), GoOn, &report_).ok());
  EXPECT_EQ(ReadWhole(dir_.Join("out.npy")).substr(128), NpyOfValues(kCount).substr(128));
  ASSERT_TRUE(Open()->Delete(KeyOf(50)).ok());
  ExpectRefused(Export(Of("gap.npy"), GoOn, &report_), "key 51 is not the number of its row");
  for (const char* const rest : {"gap.npy", "gap.npy.part", "gap.npy.note"}) {
    EXPECT_FALSE(fs::exists(dir_.Join(rest))) << rest;
  }
}

TEST_F(StoreExportTest, AnExportReplacesNoFile) {
  Written("there", "text");
  Written("there.npy", "text");
  ExpectRefused(Export(Of("there"), GoOn, &report_), "there is there already");
  ExpectRefused(Export(Of("out.npy", "there.npy"), GoOn, &report_), "there.npy is there already");
  ExpectRefused(Export(Of("out", "keys.npy"), GoOn, &report_), "belong to arrays");
  EXPECT_EQ(ReadWhole(dir_.Join("there")) + ReadWhole(dir_.Join("there.npy")), "texttext");
  Transfer missing = Of("out");
  missing.dir = dir_.Join("nothing");
  EXPECT_EQ(Export(missing, GoOn, &report_).code(), Code::kNotFound);
  ExpectRefused(Export(Of("same.npy", "./same.npy"), GoOn, &report_), "cannot both be in");
  // Without a note nobody knows whose these are.
  Written("part.part", "text");
  ExpectRefused(Export(Of("part"), GoOn, &report_), "part.part is there already");
  fs::create_symlink(dir_.Join("there"), dir_.Join("link.part"));
  ExpectRefused(Export(Of("link"), GoOn, &report_), "not a regular file");
  Written("noted.note", "text");
  ExpectRefused(Export(Of("noted"), GoOn, &report_), "is no note");
  EXPECT_EQ(ReadWhole(dir_.Join("there")) + ReadWhole(dir_.Join("part.part")) +
                ReadWhole(dir_.Join("noted.note")),
            "texttexttext");
  ASSERT_TRUE(Export(Of("empty.npy"), GoOn, &report_).ok());
  EXPECT_EQ(ReadWhole(dir_.Join("empty.npy")), NpyStart("'|u1'", "(0, 4096)"));
}

TEST_F(StoreExportTest, AnExportThatWasCancelledGoesOn) {
  const std::vector<uint64_t> keys = SpreadKeys();
  ASSERT_TRUE(Import(Written("records", RecordsOf(keys)), GoOn, &report_).ok());
  ASSERT_TRUE(Export(Of("whole.npy", "whole_keys.npy"), GoOn, &report_).ok());
  Transfer transfer = Of("out.npy", "out_keys.npy");
  StopAt(5 * kPiece, Export, transfer);
  EXPECT_EQ(NotedIn("out.npy.note"), 5 * kPiece);
  EXPECT_FALSE(fs::exists(transfer.file));
  // Rows that came after the note do not count, and a file without noted ones is refused.
  const std::string part = ReadWhole(transfer.file + ".part");
  WriteWhole(transfer.file + ".part", part.substr(0, part.size() - 1));
  transfer.resumes = true;
  ExpectRefused(Export(transfer, GoOn, &report_), "fewer than 40 rows");
  WriteWhole(transfer.file + ".part", part + "half of a row");
  ASSERT_TRUE(Export(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.moved_count, kCount - 5 * kPiece);
  EXPECT_EQ(ReadWhole(transfer.file), ReadWhole(dir_.Join("whole.npy")));
  EXPECT_EQ(ReadWhole(*transfer.keys), ReadWhole(dir_.Join("whole_keys.npy")));
  ExpectRefused(Export(transfer, GoOn, &report_), "out.npy is there already");
}

TEST_F(StoreExportTest, AFileThatAppearsMeanwhileIsNotReplaced) {
  ASSERT_TRUE(Import(Written("rows.npy", NpyOfValues(kCount)), GoOn, &report_).ok());
  const Transfer transfer = Of("out");
  const Status late = Export(
      transfer,
      [&](uint64_t done, uint64_t) {
        TransferReport other;
        if (done == 0) ExpectRefused(Export(transfer, GoOn, &other), "written by another call");
        WriteWhole(transfer.file, "mine");
        return true;
      },
      &report_);
  EXPECT_EQ(late.error(), EEXIST) << late.ToString();
  EXPECT_EQ(ReadWhole(transfer.file), "mine");
}

TEST_F(StoreExportTest, BehindTheLastKeyThereIsNone) {
  std::vector<uint64_t> keys = RowNumbers(kPiece);
  keys.back() = ~uint64_t{0};
  ASSERT_TRUE(Import(Written("records", RecordsOf(keys)), GoOn, &report_).ok());
  Transfer transfer = Of("out");
  StopAt(kPiece, Export, transfer);
  transfer.resumes = true;
  ASSERT_TRUE(Export(transfer, GoOn, &report_).ok());
  EXPECT_EQ(report_.moved_count, 0u);
  EXPECT_EQ(ReadWhole(transfer.file), RecordsOf(keys));
}

TEST_F(StoreExportTest, KilledAtAnyCallAnExportGoesOn) {
  std::vector<uint64_t> keys = SpreadKeys();
  keys.back() = ~uint64_t{0};
  ASSERT_TRUE(Import(Written("records", RecordsOf(keys)), GoOn, &report_).ok());
  ASSERT_TRUE(Export(Of("whole.npy", "whole_keys.npy"), GoOn, &report_).ok());
  Transfer transfer = Of("out.npy", "out_keys.npy");
  uint64_t resumed_count = 0;
  for (uint64_t nth = 1;; nth += test::Sized(17, 71)) {
    transfer.resumes = false;
    if (DieAt(nth, Export, transfer)) break;
    transfer.resumes = true;
    // An export that has removed its note is not done again.
    if (fs::exists(transfer.file + ".note") || !fs::exists(transfer.file)) {
      const Status resumed = Export(transfer, GoOn, &report_);
      ASSERT_TRUE(resumed.ok()) << nth << ": " << resumed.ToString();
      resumed_count += report_.moved_count < kCount;
    }
    ASSERT_EQ(ReadWhole(transfer.file), ReadWhole(dir_.Join("whole.npy"))) << nth;
    ASSERT_EQ(ReadWhole(*transfer.keys), ReadWhole(dir_.Join("whole_keys.npy"))) << nth;
    for (const std::string& name : {transfer.file, *transfer.keys}) fs::remove(name);
    ASSERT_FALSE(fs::exists(transfer.file + ".note")) << nth;
  }
  EXPECT_GT(resumed_count, 0u);
}

}  // namespace
}  // namespace engine_race::harness
