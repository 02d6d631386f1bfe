#include "engine_race/log/store_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "test/log/log_test_util.h"

namespace engine_race {
namespace {

namespace fs = std::filesystem;

Code OpenCode(const Options& options, const std::string& dir) {
  StoreFiles files;
  return OpenStoreFiles(options, dir, &files).code();
}

TEST(StoreFilesTest, MadeOnceAndFoundAgainWithItsOwnGeometry) {
  test::TempDir dir;
  uint64_t store_id = 0;
  {
    StoreFiles files;
    ASSERT_TRUE(OpenStoreFiles(test::TinyLogOptions(), dir.path(), &files).ok());
    store_id = files.identity.store_id;
  }
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(Options(), dir.path(), &files).ok());
  EXPECT_EQ(files.identity.store_id, store_id);
  EXPECT_EQ(files.identity.geometry.bucket_count, 4u);
  EXPECT_EQ(files.slots.file_count(), 2u);
}

TEST(StoreFilesTest, AnEmptyStoreTakesAlmostNoSpace) {
  test::TempDir dir;
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(Options(), dir.path(), &files).ok());
  uint64_t sum_bytes = 0;
  for (const auto& entry : fs::directory_iterator(dir.path())) {
    uint64_t bytes = 0;
    ASSERT_TRUE(sys::AllocatedBytes(files.directory.get(), entry.path().filename(), &bytes).ok());
    sum_bytes += bytes;
  }
  EXPECT_LE(sum_bytes, 16u << 20);
}

TEST(StoreFilesTest, SecondOpenerIsRefusedAndTheFirstUnharmed) {
  test::TempDir dir;
  StoreFiles files;
  ASSERT_TRUE(OpenStoreFiles(test::TinyLogOptions(), dir.path(), &files).ok());
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kIOError);
  EXPECT_TRUE(files.counts.Sync().ok());
}

TEST(StoreFilesTest, InterruptedCreationIsMadeAnew) {
  test::TempDir dir;
  ASSERT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  fs::remove(dir.Join("manifest"));
  fs::remove(dir.Join("value_01"));
  std::ofstream(dir.Join("manifest.new")) << "half a manif";
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
}

TEST(StoreFilesTest, RecordsWithoutManifestAreCorruption) {
  for (const char* name : {"key_00", "value_01", "staging_keys", "staging_values"}) {
    test::TempDir dir;
    ASSERT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
    fs::remove(dir.Join("manifest"));
    const std::string page(4096, 'r');
    test::Overwrite(dir.Join(name), page.data(), page.size(), 0);
    EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kCorruption) << name;
    EXPECT_FALSE(fs::exists(dir.Join("manifest"))) << name;
  }
  test::TempDir dir;
  ASSERT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  fs::remove(dir.Join("manifest"));
  test::SetWord(dir.path(), 1, 3, format::WordKind::kRecords, 1);
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kCorruption);
}

// The index is made from the logs, so nothing is lost with it. Its root names the store that was.
TEST(StoreFilesTest, AnIndexWithoutAManifestIsInNobodysWay) {
  test::TempDir dir;
  const std::string page(4096, 'i');
  for (const char* name : {"key_index_root", "key_index_root.new", "key_index_00"}) {
    std::ofstream(dir.Join(name)) << page;
  }
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  // Beside records it changes nothing.
  fs::remove(dir.Join("manifest"));
  test::Overwrite(dir.Join("key_00"), page.data(), page.size(), 0);
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kCorruption);
}

TEST(StoreFilesTest, TruncatedFilesAreCorruption) {
  for (const char* name : {"staging_counts", "staging_keys"}) {
    test::TempDir dir;
    ASSERT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
    fs::resize_file(dir.Join(name), fs::file_size(dir.Join(name)) - 1);
    EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kCorruption) << name;
  }
}

TEST(StoreFilesTest, MissingFilesAreCorruption) {
  for (const char* name :
       {"key_01", "value_00", "manifest_segments", "staging_counts", "staging_keys"}) {
    test::TempDir dir;
    ASSERT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
    fs::remove(dir.Join(name));
    EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kCorruption) << name;
    EXPECT_FALSE(fs::exists(dir.Join(name))) << name;
  }
}

TEST(StoreFilesTest, NoStoreIsMadeAmongOtherFiles) {
  for (const char* name : {"notes.txt", ".hidden", "documents/"}) {
    test::TempDir dir;
    fs::create_directory(dir.Join("store"));
    if (std::string_view(name).ends_with('/')) {
      fs::create_directory(dir.Join("store/") + name);
    } else {
      std::ofstream(dir.Join("store/") + name) << "mine";
    }
    StoreFiles files;
    const Status refused = OpenStoreFiles(test::TinyLogOptions(), dir.Join("store"), &files);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_EQ(refused.path(), dir.Join("store"));
    const std::string_view named =
        std::string_view(name).substr(0, std::string_view(name).find('/'));
    for (const std::string_view word : {named, std::string_view("create_among_files")}) {
      EXPECT_NE(refused.message().find(word), std::string::npos) << refused.message();
    }
    files = StoreFiles();
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.Join("store")), {}), 1)
        << "nothing is left behind";
  }
}

TEST(StoreFilesTest, NoPathIsMadeAmongOtherFiles) {
  test::TempDir dir;
  fs::create_directory(dir.Join("disk"));
  std::ofstream(dir.Join("disk/notes.txt")) << "mine";
  Options options = test::TinyLogOptions();
  options.paths = {dir.Join("disk"), dir.Join("other")};
  EXPECT_EQ(OpenCode(options, dir.Join("store")), Code::kInvalidArgument);
  options.create_among_files = true;
  EXPECT_EQ(OpenCode(options, dir.Join("store")), Code::kOk);
}

// The paths of a store may lie in one another and in its own directory.
TEST(StoreFilesTest, ItsOwnPlacesAreNoOtherFiles) {
  test::TempDir dir;
  fs::create_directories(dir.Join("store/disk/b"));
  Options options = test::TinyLogOptions();
  options.paths = {dir.Join("store/disk"), dir.Join("store/disk/b")};
  EXPECT_EQ(OpenCode(options, dir.Join("store/")), Code::kOk);
  fs::create_directories(dir.Join("above"));
  options.paths = {dir.Join("above"), dir.Join("above/a")};
  EXPECT_EQ(OpenCode(options, dir.Join("above/own")), Code::kOk);
}

TEST(StoreFilesTest, UnknownFilesAreLeftAlone) {
  test::TempDir dir;
  fs::create_directory(dir.Join("lost+found"));
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk);
  std::ofstream(dir.Join("notes.txt")) << "mine";
  EXPECT_EQ(OpenCode(test::TinyLogOptions(), dir.path()), Code::kOk) << "the store is there";
  EXPECT_TRUE(fs::is_directory(dir.Join("lost+found")));
  EXPECT_EQ(fs::file_size(dir.Join("notes.txt")), 4u);
}

TEST(StoreFilesTest, MissingStoreIsNotMadeWhenNotAskedFor) {
  test::TempDir dir;
  Options options = test::TinyLogOptions();
  options.create_if_missing = false;
  EXPECT_EQ(OpenCode(options, dir.path()), Code::kNotFound);
  EXPECT_EQ(OpenCode(options, dir.Join("absent")), Code::kNotFound);
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace engine_race
