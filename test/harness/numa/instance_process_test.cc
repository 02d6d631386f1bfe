#include "harness/numa/instance_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine_race/base/sys.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "test/e2e/small_disk.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class TextCopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    source_ = temp_.Join("program");
    std::ofstream(source_) << std::string(3 << 20, 'x') << "end";
    fs::permissions(source_, fs::perms::owner_all | fs::perms::group_exec);
    target_ = temp_.Join("copy");
  }

  const test::TempDir temp_;
  std::string source_;
  std::string target_;
};

TEST_F(TextCopyTest, MakesAFileOfItsOwn) {
  const Status copied = CopyProgram(source_, target_);
  ASSERT_TRUE(copied.ok()) << copied.message();
  EXPECT_EQ(LoadText(target_), LoadText(source_));
  EXPECT_FALSE(fs::equivalent(source_, target_));
  EXPECT_EQ(fs::status(target_).permissions(), fs::status(source_).permissions());
}

TEST_F(TextCopyTest, ReplacesALinkAndLeavesWhatItLedTo) {
  fs::create_hard_link(source_, target_);
  ASSERT_FALSE(CopyProgram(source_, target_).ok());
  fs::remove(target_);
  const std::string other = temp_.Join("other");
  std::ofstream(other) << "other";
  fs::create_symlink(other, target_);
  ASSERT_TRUE(CopyProgram(source_, target_).ok());
  EXPECT_FALSE(fs::is_symlink(target_));
  EXPECT_EQ(LoadText(other), "other");
}

TEST_F(TextCopyTest, NamesWhatIsMissing) {
  const Status no_source = CopyProgram(temp_.Join("none"), target_);
  EXPECT_NE(no_source.message().find("none"), std::string::npos);
  EXPECT_FALSE(fs::exists(target_));
  EXPECT_FALSE(CopyProgram(source_, temp_.Join("no/such/dir")).ok());
}

// The rename is the last step: here it cannot replace a directory.
TEST_F(TextCopyTest, AFailureLeavesTheTargetAndNoUnfinishedCopy) {
  fs::create_directory(target_);
  EXPECT_FALSE(CopyProgram(source_, target_).ok());
  EXPECT_TRUE(fs::is_directory(target_));
  const auto names = fs::directory_iterator(temp_.path());
  EXPECT_EQ(std::distance(begin(names), end(names)), 2) << "the source and the target";
}

TEST_F(TextCopyTest, KnowsWhatIsLinkedStatically) {
  EXPECT_EQ(CheckStaticProgram(source_).code(), Code::kNotSupported);
  // The tests themselves are not.
  const Status dynamic = CheckStaticProgram(SelfPath());
  EXPECT_EQ(dynamic.code(), Code::kNotSupported);
  EXPECT_NE(dynamic.message().find("shared libraries"), std::string::npos);
  EXPECT_FALSE(CheckStaticProgram(temp_.Join("none")).ok());
  EXPECT_FALSE(CheckStaticProgram(temp_.path()).ok());
}

TEST_F(TextCopyTest, FindsThePagesOfTheFile) {
  if (::access("/proc/self/numa_maps", R_OK) != 0) GTEST_SKIP() << "a kernel without NUMA";
  ASSERT_TRUE(CopyProgram(source_, target_).ok());
  NodeBytes bytes;
  ASSERT_TRUE(CachedPages(target_, &bytes).ok());
  uint64_t sum = 0;
  std::vector<uint32_t> nodes;
  for (const auto& [node, count] : bytes) {
    sum += count;
    nodes.push_back(node);
  }
  EXPECT_EQ(sum, (3u << 20) + 4096);
  EXPECT_TRUE(PlaceInCache(target_, nodes).ok());
  // Nodes that the machine has not: the pages cannot be had there.
  const Status elsewhere = PlaceInCache(target_, {1023});
  EXPECT_EQ(elsewhere.code(), Code::kIOError);
  EXPECT_NE(elsewhere.message().find("0.00 %"), std::string::npos) << elsewhere.message();
  const std::string empty = temp_.Join("empty");
  std::ofstream(empty).flush();
  EXPECT_TRUE(PlaceInCache(empty, {1023}).ok());
}

// A file system that can share blocks between files: a real copy shares none, a reflink all.
TEST_F(TextCopyTest, KnowsBlocksThatAreShared) {
  const test::SmallDisk disk(test::DiskKind::kXfs);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a file system needs root and mkfs.xfs";
  const std::string dir = disk.StoreDir();
  fs::create_directory(dir);
  ASSERT_TRUE(CopyProgram(source_, dir + "/copy").ok());
  const Status second = CopyProgram(dir + "/copy", dir + "/second");
  ASSERT_TRUE(second.ok()) << second.message();
  EXPECT_TRUE(CheckOwnExtents(dir + "/copy").ok());
  {
    const UniqueFd from(::open((dir + "/copy").c_str(), O_RDONLY));
    const UniqueFd to(::open((dir + "/clone").c_str(), O_RDWR | O_CREAT, 0700));
    ASSERT_EQ(::ioctl(to.get(), FICLONE, from.get()), 0);
  }
  for (const std::string name : {"/copy", "/clone"}) {
    const Status shared = CheckOwnExtents(dir + name);
    EXPECT_EQ(shared.code(), Code::kInvalidArgument) << name;
    EXPECT_NE(shared.message().find("shares blocks"), std::string::npos) << shared.message();
  }
  EXPECT_TRUE(CheckOwnExtents(dir + "/second").ok());
}

TEST(InstanceDirsTest, OnlyOneLauncherHoldsADirectory) {
  const test::TempDir temp;
  const std::string dir = temp.Join("a");
  {
    InstanceDirs first;
    ASSERT_TRUE(first.Take(dir).ok());
    EXPECT_TRUE(fs::is_directory(dir));
    InstanceDirs second;
    const Status refused = second.Take(dir);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_NE(refused.message().find(dir + " is in use"), std::string::npos) << refused.message();
    EXPECT_TRUE(second.Take(temp.Join("b")).ok());
  }
  InstanceDirs third;
  EXPECT_TRUE(third.Take(dir).ok());
}

TEST(InstanceDirsTest, LeavesNoEmptyDirectoryThatItMade) {
  const test::TempDir temp;
  fs::create_directory(temp.Join("before"));
  {
    InstanceDirs dirs;
    ASSERT_TRUE(dirs.Take(temp.Join("new/deep")).ok());
    ASSERT_TRUE(dirs.Take(temp.Join("before")).ok());
    ASSERT_TRUE(dirs.Take(temp.Join("full")).ok());
    std::ofstream(temp.Join("full/store")) << "x";
  }
  EXPECT_FALSE(fs::exists(temp.Join("new")));
  EXPECT_TRUE(fs::exists(temp.Join("before")));
  EXPECT_TRUE(fs::exists(temp.Join("full/store")));
}

TEST(InstanceDirsTest, NamesWhatCannotBeMade) {
  const test::TempDir temp;
  std::ofstream(temp.Join("file")) << "x";
  InstanceDirs dirs;
  const Status refused = dirs.Take(temp.Join("file/a"));
  EXPECT_NE(refused.message().find("file/a"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace engine_race::harness
