// Directories that do not exist yet.
#include "harness/system/disk.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "test/test_util.h"

namespace harness {
namespace {

TEST(NearestDirTest, IsTheDirectoryOrTheNearestAboveIt) {
  const engine_race::test::TempDir temp;
  EXPECT_EQ(NearestDir(temp.path()), temp.path());
  EXPECT_EQ(NearestDir(temp.Join("one/two/three")), temp.path());
  EXPECT_EQ(NearestDir("/no such directory/inside"), "/");
}

TEST(NearestDirTest, StartsFromTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(NearestDir(""), here);
  EXPECT_EQ(NearestDir("no such directory"), here);
}

}  // namespace
}  // namespace harness
