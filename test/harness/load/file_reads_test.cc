#include "harness/load/file_reads.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ReadFilesTest, ReadsTheDataOfEachFileWithTheNameOnce) {
  const test::TempDir dir;
  std::filesystem::create_directory(dir.path() + "/inside");
  const auto make = [&](const std::string& name, uint64_t begin, uint64_t bytes) {
    std::ofstream file(dir.path() + "/" + name);
    file.seekp(static_cast<std::streamoff>(begin));
    file << std::string(bytes, 'v');
    ASSERT_TRUE(file.good());
  };
  make("value_empty", 0, 0);
  make("value_short", 0, 5);
  make("inside/value_whole", 0, 3 * kMiB);
  make("value_behind_a_hole", 1024 * kMiB, 70 * kMiB);
  std::filesystem::resize_file(dir.path() + "/value_behind_a_hole", 4096 * kMiB);
  make("other", 0, kMiB);
  TimedPoint point;
  Status status = ReadFiles(dir.path(), kValueFilePrefix, &point, kMiB, 8);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(point.byte_count, 73 * kMiB + 5);
  EXPECT_EQ(point.request_count, 74u);
  status = ReadFiles(dir.path(), "", &point, 2 * kMiB, 1);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(point.byte_count, 74 * kMiB + 5);
  EXPECT_EQ(point.request_count, 35u + 2 + 1 + 1);
  EXPECT_FALSE(ReadFiles(dir.path() + "/missing", "", &point).ok());
}

}  // namespace
}  // namespace engine_race::harness
