#include "harness/system/read_through.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/test_util.h"

namespace harness {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(ReadThroughTest, ReadsTheWholeMiBOfEachFile) {
  const engine_race::test::TempDir dir;
  std::filesystem::create_directory(dir.path() + "/inside");
  const auto make = [&](const std::string& name, uint64_t bytes) {
    std::ofstream(dir.path() + "/" + name).close();
    std::filesystem::resize_file(dir.path() + "/" + name, bytes);
  };
  make("empty", 0);
  make("short", kMiB - 1);
  make("pieces", 130 * kMiB + 5);
  make("inside/one", kMiB);
  EXPECT_EQ(ReadThrough(dir.path()), 131 * kMiB);
  EXPECT_EQ(ReadThrough(dir.path() + "/missing"), 0u);
}

}  // namespace
}  // namespace harness
