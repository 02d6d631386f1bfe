// What a striped store is opened with: its own paths and nothing else.
#include "engine_race/log/value_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine_race/copies/copies.h"
#include "engine_race/log/store_files.h"
#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

class ValuePathsTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Open(Given({"a", "b"})).code(), Code::kOk); }

  Options Given(const std::vector<std::string>& names) const {
    Options options = test::TinyLogOptions();
    for (const std::string& name : names) options.paths.push_back(dir_.Join(name));
    return options;
  }
  Status Open(const Options& options) { return Open(options, "store"); }
  Status Open(const Options& options, const std::string& store) {
    StoreFiles files;
    return OpenStoreFiles(options, dir_.Join(store), &files);
  }
  // Opened so, the store says this about path `index`; it opens as before afterwards.
  void ExpectRefused(const Options& options, Code code, size_t index, const std::string& what) {
    const Status status = Open(options);
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_NE(status.message().find("path " + std::to_string(index) + ", "), std::string::npos)
        << status.ToString();
    EXPECT_NE(status.message().find(what), std::string::npos) << status.ToString();
  }
  void ExpectOpens() {
    for (const Options& options : {Given({}), Given({"a", "b"})}) {
      const Status status = Open(options);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  std::vector<std::string> ManifestPaths() {
    UniqueFd fd;
    StoreIdentity identity;
    EXPECT_TRUE(sys::OpenDirectory(dir_.Join("store"), false, &fd).ok());
    EXPECT_TRUE(ReadManifest(fd.get(), &identity).ok());
    return identity.paths;
  }

  test::TempDir dir_;
};

TEST_F(ValuePathsTest, OpensByItsManifestOrByItsPaths) {
  ExpectOpens();
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(Given({}), dir_.Join("store"), &files).ok());
  EXPECT_EQ(files.slots.file_count(), 2u) << "half of the files for each";
  EXPECT_EQ(files.slots.value_file(1).name(), "value_00 of " + dir_.Join("b"));
  EXPECT_FALSE(fs::exists(dir_.Join("store/value_00")));
  EXPECT_TRUE(fs::exists(dir_.Join("a/value_00")));
}

TEST_F(ValuePathsTest, TheNumberOfPathsMustFit) {
  EXPECT_EQ(Open(Given({"a"})).code(), Code::kInvalidArgument);
  EXPECT_EQ(Open(Given({"a", "b", "c"})).code(), Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(dir_.Join("c")));
  ASSERT_TRUE(Open(Given({}), "plain").ok());
  EXPECT_EQ(Open(Given({"c"}), "plain").code(), Code::kInvalidArgument);
  ExpectOpens();
}

TEST_F(ValuePathsTest, SwappedTwiceGivenAndForeignPathsAreRefused) {
  ExpectRefused(Given({"b", "a"}), Code::kInvalidArgument, 0, "it is path 1 of 2");
  ExpectRefused(Given({"a", "a"}), Code::kInvalidArgument, 1, "same directory as path 0");
  ASSERT_TRUE(Open(Given({"c", "d"}), "other").ok());
  ExpectRefused(Given({"a", "d"}), Code::kInvalidArgument, 1, "another store");
  ExpectRefused(Given({"a", "missing"}), Code::kInvalidArgument, 1, "missing");
  EXPECT_FALSE(fs::exists(dir_.Join("missing")));
  fs::create_directory(dir_.Join("empty"));
  ExpectRefused(Given({"empty", "b"}), Code::kInvalidArgument, 0, "no manifest_path");
  std::ofstream(dir_.Join("file")) << "text";
  ExpectRefused(Given({"a", "file"}), Code::kInvalidArgument, 1, "neither a directory");
  EXPECT_EQ(ManifestPaths(), Given({"a", "b"}).paths);
  ExpectOpens();
}

TEST_F(ValuePathsTest, WhatIsMissingOfTheStoreIsCorruption) {
  fs::rename(dir_.Join("b"), dir_.Join("away"));
  ExpectRefused(Given({}), Code::kCorruption, 1, "missing");
  EXPECT_FALSE(fs::exists(dir_.Join("b"))) << "never an empty one in its place";
  std::ofstream(dir_.Join("b")) << "text";
  ExpectRefused(Given({}), Code::kCorruption, 1, "neither a directory");
  fs::remove(dir_.Join("b"));
  fs::create_directory(dir_.Join("b"));
  ExpectRefused(Given({}), Code::kCorruption, 1, "no manifest_path");
  fs::remove(dir_.Join("b"));
  fs::rename(dir_.Join("away"), dir_.Join("b"));
  ExpectOpens();
  fs::rename(dir_.Join("a"), dir_.Join("away"));
  fs::rename(dir_.Join("b"), dir_.Join("a"));
  fs::rename(dir_.Join("away"), dir_.Join("b"));
  ExpectRefused(Given({}), Code::kCorruption, 0, "it is path 1 of 2");
}

TEST_F(ValuePathsTest, ADamagedMarkerIsCorruption) {
  const std::string marker = dir_.Join("a/manifest_path");
  ASSERT_EQ(fs::file_size(marker), sizeof(format::PathMarker));
  for (size_t i = 0; i < sizeof(format::PathMarker); ++i) {
    std::fstream file(marker, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(i));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(i));
    file.put(static_cast<char>(byte ^ 4)).flush();
    ExpectRefused(Given({}), Code::kCorruption, 0, "manifest_path");
    file.seekp(static_cast<std::streamoff>(i));
    file.put(static_cast<char>(byte)).flush();
  }
  ExpectOpens();
  fs::resize_file(marker, 16);
  ExpectRefused(Given({"a", "b"}), Code::kCorruption, 0, "truncated");
}

TEST_F(ValuePathsTest, AMissingValueFileIsNamedWithItsPath) {
  fs::remove(dir_.Join("b/value_00"));
  const Status status = Open(Given({}));
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find("value_00 of " + dir_.Join("b")), std::string::npos);
  EXPECT_FALSE(fs::exists(dir_.Join("b/value_00")));
}

TEST_F(ValuePathsTest, MovedPathsAreWrittenIntoTheManifest) {
  fs::rename(dir_.Join("b"), dir_.Join("moved"));
  VerifyReport report;
  EXPECT_TRUE(VerifyStore(dir_.Join("store"), &report, {}, Given({"a", "moved"})).ok());
  EXPECT_EQ(ManifestPaths(), Given({"a", "b"}).paths) << "opened for reading";
  ASSERT_TRUE(Open(Given({"a", "moved"})).ok());
  EXPECT_EQ(ManifestPaths(), Given({"a", "moved"}).paths);
  EXPECT_TRUE(Open(Given({})).ok());
  // A store that does not open keeps its manifest.
  fs::rename(dir_.Join("moved"), dir_.Join("b"));
  fs::remove(dir_.Join("b/value_00"));
  EXPECT_EQ(Open(Given({"a", "b"})).code(), Code::kCorruption);
  EXPECT_EQ(ManifestPaths(), Given({"a", "moved"}).paths);
}

TEST_F(ValuePathsTest, NamesAreMadeAbsolute) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_.path());
  Options options = Given({});
  options.paths = {".//c", "./d/."};
  const Status status = Open(options, "relative");
  fs::current_path(before);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(Open(Given({}), "relative").ok());
  EXPECT_TRUE(Open(Given({"c", "d"}), "relative").ok());
  EXPECT_TRUE(fs::exists(dir_.Join("d/value_00")));
}

// Dropping "link/.." from the name would lead to another directory.
TEST_F(ValuePathsTest, DotDotBehindASymlinkIsWhereTheKernelSays) {
  fs::create_directories(dir_.Join("disk/x"));
  fs::create_directory_symlink(dir_.Join("disk/x"), dir_.Join("link"));
  const Options options = Given({"link/../c", "d"});
  ASSERT_TRUE(Open(options, "other").ok());
  EXPECT_TRUE(fs::exists(dir_.Join("disk/c/value_00")));
  EXPECT_FALSE(fs::exists(dir_.Join("c")));
  EXPECT_TRUE(Open(Given({}), "other").ok());
  EXPECT_TRUE(Open(options, "other").ok());
  EXPECT_TRUE(Open(Given({"disk/c", "d"}), "other").ok()) << "it is the same directory";
}

TEST_F(ValuePathsTest, NamesThatDoNotFitAreRefused) {
  Options options = Given({});
  for (char c = 'a'; c < 'u'; ++c) options.paths.push_back(dir_.Join(std::string(240, c)));
  EXPECT_EQ(Open(options, "other").code(), Code::kInvalidArgument);
  EXPECT_FALSE(fs::exists(options.paths[0])) << "nothing is made";
  options.paths = {dir_.Join("c"), dir_.Join(std::string("d\0e", 3))};
  EXPECT_EQ(Open(options, "other").code(), Code::kInvalidArgument);
  EXPECT_TRUE(Open(Given({"c"}), "other").ok());
}

TEST_F(ValuePathsTest, APathIsOfOneStoreAndOpenOnce) {
  const Status shared = Open(Given({"c", "b"}), "other");
  EXPECT_EQ(shared.code(), Code::kInvalidArgument);
  EXPECT_NE(shared.message().find("another store"), std::string::npos) << shared.ToString();
  EXPECT_FALSE(fs::exists(dir_.Join("other/manifest")));
  {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFiles(Given({}), dir_.Join("store"), &files).ok());
    const Status held = Open(Given({"c", "b"}), "other");
    EXPECT_EQ(held.code(), Code::kIOError);
    EXPECT_NE(held.message().find("path 1, " + dir_.Join("b")), std::string::npos);
  }
  ExpectOpens();
  EXPECT_TRUE(Open(Given({"c", "d"}), "other").ok()) << "what was made for it is taken over";
}

TEST_F(ValuePathsTest, TheSameDirectoryTwiceMakesNoStore) {
  fs::create_directory(dir_.Join("c"));
  fs::create_directory_symlink(dir_.Join("c"), dir_.Join("link"));
  for (const auto& names : {std::vector<std::string>{"c", "c"}, {"c", "link"}, {"d", "c/../d"}}) {
    const Status status = Open(Given(names), "other");
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
    EXPECT_NE(status.message().find("path 1, "), std::string::npos) << status.ToString();
  }
  std::ofstream(dir_.Join("file")) << "text";
  EXPECT_EQ(Open(Given({"file"}), "other").code(), Code::kInvalidArgument);
}

TEST_F(ValuePathsTest, TheStoresOwnDirectoryMayBeAPath) {
  ASSERT_TRUE(Open(Given({"own", "c"}), "own").ok());
  EXPECT_TRUE(fs::exists(dir_.Join("own/value_00")));
  EXPECT_TRUE(Open(Given({}), "own").ok());
  EXPECT_TRUE(Open(Given({"own", "c"}), "own").ok());
  EXPECT_EQ(Open(Given({"own", "d"}), "third").code(), Code::kInvalidArgument);
}

// Files and markers, but no manifest yet.
TEST_F(ValuePathsTest, InterruptedCreationIsMadeAnew) {
  fs::rename(dir_.Join("store/manifest"), dir_.Join("store/manifest.draft"));
  fs::remove(dir_.Join("b/value_00"));
  fs::remove(dir_.Join("b/manifest_path"));
  ASSERT_TRUE(Open(Given({"a", "b"})).ok());
  EXPECT_FALSE(fs::exists(dir_.Join("store/manifest.draft")));
  ExpectOpens();
  // Begun anew the other way round.
  fs::rename(dir_.Join("store/manifest"), dir_.Join("store/manifest.draft"));
  ASSERT_TRUE(Open(Given({"b", "a"})).ok());
  EXPECT_EQ(ManifestPaths(), Given({"b", "a"}).paths);
  EXPECT_TRUE(Open(Given({"b", "a"})).ok());
}

TEST_F(ValuePathsTest, RecordsWithoutManifestAreCorruption) {
  fs::rename(dir_.Join("store/manifest"), dir_.Join("store/manifest.draft"));
  const std::string page(4096, 'r');
  test::Overwrite(dir_.Join("b/value_00"), page.data(), page.size(), 0);
  const Status status = Open(Given({"a", "b"}));
  EXPECT_EQ(status.code(), Code::kCorruption);
  EXPECT_NE(status.message().find(dir_.Join("b")), std::string::npos) << status.ToString();
  EXPECT_FALSE(fs::exists(dir_.Join("store/manifest")));
}

// Not an interrupted creation: the manifest was there.
TEST_F(ValuePathsTest, AMissingManifestIsCorruption) {
  fs::remove(dir_.Join("store/manifest"));
  EXPECT_EQ(Open(Given({"a", "b"})).code(), Code::kCorruption);
  fs::remove_all(dir_.Join("store"));
  EXPECT_EQ(Open(Given({"a", "b"})).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace engine_race
