#include "harness/system/read_through.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/test_util.h"

namespace harness {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ReadThroughTest, ReadsTheWholeMiBOfEachFileThatHaveData) {
  const engine_race::test::TempDir dir;
  std::filesystem::create_directory(dir.path() + "/inside");
  const auto make = [&](const std::string& name, uint64_t begin, uint64_t bytes) {
    std::ofstream file(dir.path() + "/" + name);
    file.seekp(static_cast<std::streamoff>(begin));
    file << std::string(bytes, 'v');
    ASSERT_TRUE(file.good());
  };
  make("empty", 0, 0);
  make("short", 0, kMiB - 1);
  make("pieces", 0, 130 * kMiB + 5);
  // The data begins and ends inside a MiB.
  make("behind a hole", 1024 * kMiB + 5000, 3 * kMiB);
  std::filesystem::resize_file(dir.path() + "/behind a hole", 4096 * kMiB);
  make("inside/one", 0, kMiB);
  uint64_t read_bytes = 0;
  const engine_race::Status status = ReadThrough(dir.path(), &read_bytes);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(read_bytes, (130 + 4 + 1) * kMiB);
  ASSERT_TRUE(ReadThrough(dir.path() + "/missing", &read_bytes).ok());
  EXPECT_EQ(read_bytes, 0u);
}

}  // namespace
}  // namespace harness
