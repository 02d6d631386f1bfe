// Stores of older formats and their upgrade. The lock of format 3 is the flock of its directories.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine_race/base/checksum.h"
#include "engine_race/log/path_marker.h"
#include "engine_race/log/store_files.h"
#include "test/log/log_test_util.h"
#include "test/log/store_files_test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

class StoreVersionTest : public test::StoreFilesFixture {
 protected:
  template <typename Page>
  void SetVersion(const std::string& path, uint64_t seed, uint32_t version) {
    Page page;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&page), sizeof(page));
    page.format_version = version;
    page.checksum = Hash64(&page, offsetof(Page, checksum), seed);
    test::Overwrite(path, &page, sizeof(page), 0);
  }
  uint32_t Version() const {
    UniqueFd fd;
    StoreIdentity identity;
    EXPECT_TRUE(sys::OpenDirectory(Dir(), false, &fd).ok());
    EXPECT_TRUE(ReadManifest(fd.get(), &identity).ok());
    return identity.format_version;
  }
  uint32_t MarkerVersion(const std::string& path) const {
    UniqueFd fd;
    format::PathMarker marker{};
    EXPECT_TRUE(sys::OpenDirectory(dir_.Join(path), false, &fd).ok());
    EXPECT_TRUE(ReadPathMarker(fd.get(), &marker).ok());
    return marker.format_version;
  }
};

class OldStoreTest : public StoreVersionTest {
 protected:
  void SetUp() override {
    Make(Striped());
    SetVersion<format::Manifest>(Join("manifest"), format::kManifestMagic, 3);
    for (const char* path : {"a", "b"}) {
      SetVersion<format::PathMarker>(dir_.Join(path) + "/manifest_path", format::kMarkerMagic, 3);
      fs::remove(dir_.Join(path) + "/manifest_lock");
    }
    fs::remove(Join("manifest_lock"));
    ASSERT_EQ(Version(), 3u);
  }

  // Locks a directory as a build of format 3 does; invalid when it is locked already.
  UniqueFd OldLock(const std::string& dir) const {
    UniqueFd fd;
    bool supported = false;
    EXPECT_TRUE(sys::OpenDirectory(dir, false, &fd).ok());
    if (!sys::Flock(fd.get(), sys::LockKind::kExclusive, &supported).ok()) fd.Reset();
    return fd;
  }
};

TEST_F(OldStoreTest, BecomesANewOne) {
  std::vector<std::string> lines;
  Options options;
  options.log = [&lines](LogLevel, std::string_view line) { lines.emplace_back(line); };
  {
    StoreFiles files;
    const Status opened = OpenStoreFiles(options, Dir(), &files);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    EXPECT_TRUE(OldLock(Dir()).valid()) << "the flock is needed no more";
  }
  EXPECT_EQ(Version(), 6u);
  EXPECT_EQ(MarkerVersion("a"), 4u);
  EXPECT_EQ(MarkerVersion("b"), 4u);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("from format 3 to 6") != std::string::npos;
  }));
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    EXPECT_TRUE(fs::exists(dir + "/manifest_lock"));
  }
  Make(Striped());
}

TEST_F(OldStoreTest, HasAllKeys) {
  Options options;
  options.key_range = {0, 1000};
  EXPECT_EQ(Open(options).code(), Code::kInvalidArgument);
  EXPECT_EQ(Version(), 3u) << "what is refused stays as it was";
  options.key_range = KeyRange();
  EXPECT_EQ(Open(options).code(), Code::kOk);
  EXPECT_EQ(Version(), 6u);
}

TEST_F(OldStoreTest, IsRefusedWhileAnOldBuildHasIt) {
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    const UniqueFd old_build = OldLock(dir);
    ASSERT_TRUE(old_build.valid());
    EXPECT_EQ(Open(Options()).code(), Code::kIOError) << dir;
    EXPECT_EQ(OpenToRead().code(), Code::kIOError) << dir;
    EXPECT_EQ(Version(), 3u);
    for (const std::string& each : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
      EXPECT_FALSE(fs::exists(each + "/manifest_lock")) << each;
    }
  }
  Make(Striped());
}

TEST_F(OldStoreTest, IsReadAsItIs) {
  StoreFiles first;
  StoreFiles second;
  ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &first).ok());
  ASSERT_TRUE(OpenStoreFilesToRead(Dir(), &second).ok()) << "beside another one";
  EXPECT_FALSE(OldLock(Dir()).valid());
  EXPECT_FALSE(OldLock(dir_.Join("b")).valid());
  EXPECT_EQ(Open(Options()).code(), Code::kIOError);
  first = StoreFiles();
  second = StoreFiles();
  EXPECT_EQ(Version(), 3u);
  EXPECT_FALSE(fs::exists(Join("manifest_lock")));
}

// An interrupted upgrade leaves lock files behind; an old build may then have the store open.
TEST_F(OldStoreTest, ALockFileAloneMakesItNoNewStore) {
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    std::ofstream(dir + "/manifest_lock").flush();
  }
  for (const std::string& dir : {Dir(), dir_.Join("a"), dir_.Join("b")}) {
    const UniqueFd old_build = OldLock(dir);
    EXPECT_EQ(OpenToRead().code(), Code::kIOError) << dir;
    EXPECT_EQ(Open(Options()).code(), Code::kIOError) << dir;
  }
  EXPECT_TRUE(OpenToRead().ok());
  EXPECT_EQ(Version(), 3u);
}

TEST_F(OldStoreTest, AnInterruptedUpgradeIsGoneOnWith) {
  StoreIdentity identity;
  UniqueFd fd;
  ASSERT_TRUE(sys::OpenDirectory(Dir(), false, &fd).ok());
  ASSERT_TRUE(ReadManifest(fd.get(), &identity).ok());
  ASSERT_TRUE(sys::OpenDirectory(dir_.Join("a"), false, &fd).ok());
  ASSERT_TRUE(WritePathMarker(fd.get(), identity, 0, 0600).ok());
  Make(Striped());
  EXPECT_EQ(Version(), 6u);
  EXPECT_EQ(MarkerVersion("b"), 4u);
}

// An old build refuses a new manifest. While there is none, only the flock keeps that build out.
TEST_F(OldStoreTest, AnOldBuildAndThisOneDoNotMakeAStoreAtOnce) {
  fs::remove_all(Dir());
  fs::create_directory(Dir());
  {
    const UniqueFd old_build = OldLock(Dir());
    EXPECT_EQ(Open(test::TinyLogOptions()).code(), Code::kIOError);
    EXPECT_TRUE(fs::is_empty(Dir()));
  }
  Make();
}

// Versions 4 and 5 are 6 and 7 without an index on disk.
TEST_F(StoreVersionTest, StoresOfBeforeTheIndexAreBroughtUpByWriters) {
  const auto set_version = [this](uint32_t version) {
    SetVersion<format::Manifest>(Join("manifest"), format::kManifestMagic, version);
  };
  Make(Striped());
  ASSERT_EQ(Version(), 6u);
  set_version(4);
  EXPECT_TRUE(OpenToRead().ok());
  EXPECT_EQ(Version(), 4u) << "a reader leaves it as it is";
  const auto marker = fs::last_write_time(dir_.Join("a") + "/manifest_path");
  Make(Striped());
  EXPECT_EQ(Version(), 6u);
  EXPECT_EQ(fs::last_write_time(dir_.Join("a") + "/manifest_path"), marker);

  Options options = Striped();
  options.key_range = {0, 1000};
  for (const std::string& path : {Dir(), dir_.Join("a"), dir_.Join("b")}) fs::remove_all(path);
  Make(options);
  ASSERT_EQ(Version(), 7u);
  set_version(5);
  EXPECT_TRUE(OpenToRead().ok());
  EXPECT_EQ(Version(), 5u);
  Make(options);
  EXPECT_EQ(Version(), 7u);
}

// The lock file tells version 4 from version 3.
TEST_F(StoreVersionTest, AStoreOfBeforeTheIndexNeedsItsLockFile) {
  Make();
  SetVersion<format::Manifest>(Join("manifest"), format::kManifestMagic, 4);
  fs::remove(Join("manifest_lock"));
  EXPECT_EQ(Open(Options()).code(), Code::kCorruption);
  EXPECT_EQ(OpenToRead().code(), Code::kCorruption);
  EXPECT_EQ(Version(), 4u);
}

}  // namespace
}  // namespace engine_race
