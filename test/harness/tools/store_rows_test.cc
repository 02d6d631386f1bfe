#include "harness/tools/store_rows.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "test/harness/tools/row_files.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using std::string_literals::operator""s;

class StoreRowsTest : public testing::Test {
 protected:
  Status Open(std::string_view bytes, const std::string& name = "rows.npy") {
    WriteWhole(dir_.Join(name), bytes);
    file_ = RowFile();
    return OpenRows(dir_.Join(name), kValueBytes, &file_);
  }
  void ExpectRefused(std::string_view bytes, const std::string& why,
                     const std::string& name = "rows.npy") {
    const Status opened = Open(bytes, name);
    EXPECT_EQ(opened.code(), Code::kInvalidArgument) << why;
    EXPECT_NE(opened.message().find(why), std::string::npos) << opened.ToString();
  }

  test::TempDir dir_{test::FastParent()};
  RowFile file_;
};

TEST_F(StoreRowsTest, AnArrayHasTheRowsOfItsHeader) {
  ASSERT_TRUE(Open(NpyStart("'<f4'", "(3, 2, 1)") + "row zerorow one row two ").ok());
  EXPECT_EQ(file_.type, "<f4");
  EXPECT_EQ(file_.count, 3u);
  EXPECT_EQ(file_.row_bytes, 8u);
  std::string rows(16, '\0');
  ASSERT_TRUE(file_.Read(1, 2, rows.data()).ok());
  EXPECT_EQ(rows, "row one row two ");
  EXPECT_EQ(file_.Read(2, 2, rows.data()).code(), Code::kIOError);
  ASSERT_TRUE(Open(NpyStart("'|S5'", "(2,)") + "fiveshalfs").ok());
  EXPECT_EQ(file_.row_bytes, 5u);
  ASSERT_TRUE(Open(NpyStart("'<M8[ns]'", "(1, 2)") + std::string(16, 'x')).ok());
  EXPECT_EQ(file_.row_bytes, 16u);
  ASSERT_TRUE(Open(NpyStart("'<u8'", "(0,)")).ok());
  EXPECT_EQ(file_.count, 0u);
}

TEST_F(StoreRowsTest, AHeaderMayBeOfAnotherVersionAndSpacing) {
  const std::string words = "{'shape':(1,2),'fortran_order':False,'descr':'<i2'}";
  for (const char version : {'\2', '\3'}) {
    std::string head = "\x93NUMPY"s + version + '\0';
    head += static_cast<char>(words.size());
    ASSERT_TRUE(Open(head + "\0\0\0"s + words + "four").ok());
    EXPECT_EQ(file_.row_bytes, 4u);
    EXPECT_EQ(file_.begin, 12 + words.size());
  }
}

TEST_F(StoreRowsTest, RefusesATruncatedArray) {
  const std::string whole = NpyStart("'|u1'", "(2, 4)") + "8 bytes!";
  for (const size_t size : {size_t{0}, size_t{5}, size_t{11}, size_t{60}, size_t{127}}) {
    ExpectRefused(whole.substr(0, size), "is no whole .npy file");
  }
  for (const size_t size : {size_t{128}, size_t{132}, size_t{135}}) {
    ExpectRefused(whole.substr(0, size), "not 2 rows of 4");
  }
  ExpectRefused(whole + "x", "9 bytes of rows");
  ASSERT_TRUE(Open(whole).ok());
}

TEST_F(StoreRowsTest, RefusesWhatIsNoArrayOfNumbers) {
  const std::string rows = "8 bytes!";
  ExpectRefused("\x93NUMPX" + NpyStart("'|u1'", "(8,)").substr(6) + rows, "no whole .npy");
  std::string other_version = NpyStart("'|u1'", "(8,)");
  other_version[6] = '\4';
  ExpectRefused(other_version + rows, "no whole .npy");
  ExpectRefused(NpyStart("'>u8'", "(1,)") + rows, "'>u8'");
  ExpectRefused(NpyStart("'|O'", "(1,)") + rows, "'|O'");
  ExpectRefused(NpyStart("[('a', '<u8')]", "(1,)") + rows, "not an array of numbers");
  ExpectRefused(NpyStart("'|u1'", "(2, 4)", "True") + rows, "Fortran");
  // A header of 4 KiB and no more is looked at, and is shown cut and escaped.
  std::string head = "\x93NUMPY\1\0"s + std::string("\0\x10", 2) + std::string(4096, '\1');
  ExpectRefused(head, "\\x01...");
  head[8] = '\1';
  ExpectRefused(head + "\1", "no whole .npy");
  ExpectRefused(NpyStart("'<u8'", "()") + rows, "has no rows");
  ExpectRefused(NpyStart("'<u8'", "(1, 0)") + rows, "rows of no size");
  ExpectRefused(NpyStart("'<u8'", "(1, 2305843009213693953)") + rows, "rows of no size");
  ExpectRefused(NpyStart("'<u8'", "(4611686018427387905,)") + rows, "not 4611686018427387905 rows");
}

TEST_F(StoreRowsTest, RecordsFillTheirFile) {
  ASSERT_TRUE(Open(RecordsOf({7, 8}), "records").ok());
  EXPECT_EQ(file_.count, 2u);
  EXPECT_EQ(file_.row_bytes, 4104u);
  ExpectRefused(RecordsOf({7, 8}).substr(1), "8207 bytes", "records");
  ASSERT_TRUE(Open("", "records").ok());
  EXPECT_EQ(file_.count, 0u);
  EXPECT_EQ(OpenRows(dir_.path(), kValueBytes, &file_).code(), Code::kInvalidArgument);
  EXPECT_EQ(OpenRows("/dev/null", kValueBytes, &file_).code(), Code::kInvalidArgument);
  // The open of a FIFO would wait for a writer.
  ASSERT_EQ(::mkfifo(dir_.Join("fifo").c_str(), 0600), 0);
  EXPECT_EQ(OpenRows(dir_.Join("fifo"), kValueBytes, &file_).code(), Code::kInvalidArgument);
  EXPECT_EQ(OpenRows(dir_.Join("nothing"), kValueBytes, &file_).code(), Code::kIOError);
}

TEST_F(StoreRowsTest, WritesWhatNumpyWrites) {
  const std::string path = dir_.Join("made.npy");
  {
    RowWriter writer;
    ASSERT_TRUE(writer.Open(path, /*is_npy=*/true, 4, 0, /*own=*/false).ok());
    ASSERT_TRUE(writer.Begin().ok());
    writer.Add("row0");
    writer.Add("row1");
    ASSERT_TRUE(writer.Flush().ok());
    EXPECT_EQ(ReadWhole(path), std::string(128, '\0') + "row0row1");
  }
  RowWriter writer;
  ASSERT_TRUE(writer.Open(path, /*is_npy=*/true, 4, 1, /*own=*/true).ok());
  ASSERT_TRUE(writer.Begin().ok());
  writer.Add("next");
  ASSERT_TRUE(writer.Flush().ok());
  ASSERT_TRUE(writer.Finish("|u1", " 4").ok());
  EXPECT_EQ(ReadWhole(path), NpyStart("'|u1'", "(2, 4)") + "row0next");
  writer = RowWriter();
  EXPECT_EQ(writer.Open(path, /*is_npy=*/true, 4, 3, /*own=*/true).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace engine_race::harness
