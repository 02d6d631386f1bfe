// Directories that do not exist yet, and the room for what is to be written.
#include "harness/system/disk.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

TEST(NearestDirTest, IsTheDirectoryOrTheNearestAboveIt) {
  const test::TempDir temp;
  EXPECT_EQ(NearestDir(temp.path()), temp.path());
  EXPECT_EQ(NearestDir(temp.Join("one/two/three")), temp.path());
  EXPECT_EQ(NearestDir("/no such directory/inside"), "/");
}

TEST(NearestDirTest, StartsFromTheWorkingDirectory) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(NearestDir(""), here);
  EXPECT_EQ(NearestDir("no such directory"), here);
}

TEST(WhyNoRoomTest, AFileSystemMustHoldAllNeedsTogether) {
  const test::TempDir dir;
  constexpr uint64_t kMuch = uint64_t{1} << 60;
  EXPECT_EQ(WhyNoRoom({{dir.path(), 1}}), "");
  EXPECT_EQ(WhyNoRoom({{dir.path() + "/of/tomorrow", 1}}), "");
  EXPECT_NE(WhyNoRoom({{dir.path(), 1}, {dir.path() + "/of/tomorrow", kMuch}}), "");
  // Those of any need make room for all.
  EXPECT_EQ(WhyNoRoom({{dir.path(), kMuch}, {dir.path(), 1, kMuch}}), "");
  EXPECT_NE(WhyNoRoom({{dir.path(), kMuch}, {dir.path(), kMuch, kMuch}}), "");
  // Their sum would wrap.
  EXPECT_NE(WhyNoRoom({{dir.path(), ~uint64_t{0}}, {dir.path(), 2}}), "");
}

}  // namespace
}  // namespace engine_race::harness
