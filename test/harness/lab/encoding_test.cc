#include "harness/lab/encoding.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "harness/lab/block_cache.h"
#include "harness/lab/table.h"
#include "test/harness/lab/encodings.h"
#include "test/harness/lab/table_test_util.h"

namespace engine_race::test {
namespace {

constexpr ::harness::TableShape kEncodedShape = {16, 24};

class EncodingTest : public ::testing::Test {
 protected:
  Status Build(const ::lab::BlockEncoding& encoding) {
    std::mt19937_64 random(1);
    const Records records = RandomRecords(KeyKind::kRandom, kEncodedShape, 2000, &random);
    return dir_.Build("t", kEncodedShape, encoding, records);
  }

  TableDir dir_;
  std::unique_ptr<::lab::ExtentFile> file_;
};

TEST_F(EncodingTest, AFileSaysWhichOneItHas) {
  for (const lab::Encoding encoding : kEncodings) {
    ASSERT_TRUE(Build(lab::BlocksIn(encoding)).ok());
    ASSERT_TRUE(::lab::ExtentFile::Open(dir_.fd(), "t", &file_).ok());
    lab::Encoding found = {};
    ASSERT_TRUE(lab::EncodingOf(*file_, &found).ok());
    EXPECT_EQ(found, encoding);
  }
}

TEST_F(EncodingTest, AnUnknownOneIsNotReadAsAnother) {
  ASSERT_TRUE(Build({9, ::lab::kTreeEncoding.make_builder}).ok());
  ASSERT_TRUE(::lab::ExtentFile::Open(dir_.fd(), "t", &file_).ok());
  lab::Encoding found = {};
  EXPECT_EQ(lab::EncodingOf(*file_, &found).code(), Code::kNotSupported);
  lab::BlockCache cache(1 << 20);
  lab::TableOptions options;
  options.extents = options.indexes = options.records = lab::Reach::kCache;
  std::unique_ptr<lab::Table> table;
  EXPECT_EQ(lab::Table::Open(dir_.fd(), "t", options, nullptr, nullptr, &cache, &table).code(),
            Code::kNotSupported);
}

}  // namespace
}  // namespace engine_race::test
