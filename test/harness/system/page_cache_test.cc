// Files in memory are never cold.
#include "harness/system/disk.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

TEST(PageCacheTest, FilesInMemoryAreNotDropped) {
  const std::filesystem::path parent = "/dev/shm";
  if (!FileSystemName(parent.string()).starts_with("tmpfs")) GTEST_SKIP() << "no tmpfs";
  const test::TempDir dir(parent);
  std::ofstream(dir.Join("file")) << "some";
  EXPECT_EQ(DropPageCache(dir.path()), "not dropped: the files lie in memory");
}

}  // namespace
}  // namespace engine_race::harness
