// The directories that benches empty, and those that they leave alone.
#include "harness/bench/session.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "engine_race/store.h"
#include "test/device_node.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class StoreDirTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) const {
    fs::create_directories((fs::path(temp_.Join(name))).parent_path());
    std::ofstream(temp_.Join(name)) << "x";
  }
  bool Has(const std::string& name) const { return fs::exists(temp_.Join(name)); }

  // Makes a bench's store with one file in "store".
  void MakeStore(const std::vector<std::string>& value_paths = {}) {
    StoreDir dir;
    ASSERT_TRUE(dir.Prepare(temp_.Join("store"), value_paths).ok());
    ASSERT_TRUE(dir.Empty().ok());
    Touch("store/manifest");
  }

  test::TempDir temp_;
};

TEST_F(StoreDirTest, EmptiesItsOwnStore) {
  MakeStore();
  EXPECT_TRUE(Has("store/manifest"));
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {}).ok());
  EXPECT_TRUE(Has("store/manifest"));
  ASSERT_TRUE(dir.Empty().ok());
  EXPECT_FALSE(Has("store/manifest"));
}

TEST_F(StoreDirTest, LeavesOtherFilesAlone) {
  Touch("store/manifest");
  StoreDir dir;
  EXPECT_FALSE(dir.Prepare(temp_.Join("store"), {}).ok());
  EXPECT_TRUE(Has("store/manifest"));
  fs::remove(temp_.Join("store/manifest"));
  MakeStore();
  Touch("store/letter");
  EXPECT_NE(StoreDir().Prepare(temp_.Join("store"), {}).message().find("letter"),
            std::string::npos);
}

TEST_F(StoreDirTest, LeavesValuesOfOtherStoresAlone) {
  Touch("values/value_00");
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  MakeStore();
  // The store has no values there.
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  EXPECT_TRUE(Has("values/value_00"));
}

TEST_F(StoreDirTest, EmptiesItsOwnValuePaths) {
  MakeStore({temp_.Join("values")});
  Touch("values/value_00");
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  ASSERT_TRUE(dir.Empty().ok());
  EXPECT_FALSE(Has("values/value_00"));
}

// The same relative name means another directory in another working directory.
TEST_F(StoreDirTest, TheNoteKeepsCanonicalPaths) {
  const fs::path before = fs::current_path();
  fs::create_directories(temp_.Join("one"));
  fs::create_directories(temp_.Join("two/values"));
  fs::current_path(temp_.Join("one"));
  MakeStore({"values"});
  Touch("one/values/value_00");
  fs::current_path(temp_.Join("two"));
  Touch("two/values/value_00");
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {"values"}).ok());
  StoreDir dir;
  EXPECT_TRUE(dir.Prepare(temp_.Join("two/../store"), {"../one/values"}).ok());
  EXPECT_TRUE(dir.Empty().ok());
  fs::current_path(before);
  EXPECT_TRUE(Has("two/values/value_00"));
  EXPECT_FALSE(Has("one/values/value_00"));
}

// The store's note names the path, but another store has taken it meanwhile.
TEST_F(StoreDirTest, AValuePathThatChangedHandsIsLeftAlone) {
  MakeStore({temp_.Join("values")});
  fs::remove_all(temp_.Join("values"));
  Touch("values/value_00");
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  fs::remove_all(temp_.Join("values"));
  StoreDir other;
  ASSERT_TRUE(other.Prepare(temp_.Join("other"), {temp_.Join("values")}).ok());
  ASSERT_TRUE(other.Empty().ok());
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  EXPECT_TRUE(Has("values/bench-store.json"));
}

TEST_F(StoreDirTest, AFreshDirectoryLeavesNoNotes) {
  std::string path;
  {
    StoreDir dir;
    ASSERT_TRUE(dir.Prepare("", {temp_.Join("values")}).ok());
    ASSERT_TRUE(dir.Empty().ok());
    path = dir.path();
    EXPECT_TRUE(Has("values/bench-store.json"));
    Touch("values/letter");
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(Has("values/bench-store.json"));
  EXPECT_TRUE(Has("values/letter"));
}

// A bench that was killed before it wrote its notes has left them empty.
TEST_F(StoreDirTest, EmptyNotesLockNothing) {
  fs::create_directories(temp_.Join("store"));
  fs::create_directories(temp_.Join("values"));
  std::ofstream(temp_.Join("store/bench-store.json"));
  std::ofstream(temp_.Join("values/bench-store.json"));
  MakeStore({temp_.Join("values")});
  MakeStore({temp_.Join("values")});
  // Somebody else's store beside an empty note is none of a bench's.
  fs::resize_file(temp_.Join("store/bench-store.json"), 0);
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}).ok());
  EXPECT_TRUE(Has("store/manifest"));
}

// Another bench takes the second value path after this one has looked at it.
TEST_F(StoreDirTest, AFailureLeavesNoNotes) {
  const std::vector<std::string> paths = {temp_.Join("one"), temp_.Join("two")};
  for (const std::string& name : {std::string(), temp_.Join("store")}) {
    std::string path;
    {
      StoreDir dir;
      ASSERT_TRUE(dir.Prepare(name, paths).ok());
      path = dir.path();
      Touch("two/bench-store.json");
      EXPECT_NE(dir.Empty().message().find("names another store"), std::string::npos);
    }
    EXPECT_EQ(fs::exists(path), !name.empty());
    EXPECT_FALSE(fs::exists(path + "/bench-store.json"));
    EXPECT_FALSE(Has("one/bench-store.json"));
    EXPECT_TRUE(Has("two/bench-store.json"));
    fs::remove(temp_.Join("two/bench-store.json"));
  }
  MakeStore(paths);
}

TEST_F(StoreDirTest, OneBenchAtATime) {
  StoreDir first;
  ASSERT_TRUE(first.Prepare(temp_.Join("store"), {}).ok());
  ASSERT_TRUE(first.Empty().ok());
  Touch("store/manifest");
  StoreDir second;
  ASSERT_TRUE(second.Prepare(temp_.Join("store"), {}).ok());
  EXPECT_NE(second.Empty().message().find("in use"), std::string::npos);
  EXPECT_TRUE(Has("store/manifest"));
  EXPECT_TRUE(first.Empty().ok());
}

// Any program may have the store open, not only a bench.
TEST_F(StoreDirTest, AnOpenStoreIsLeftAlone) {
  MakeStore();
  fs::remove(temp_.Join("store/manifest"));
  // The bench's note is there.
  Options options;
  options.create_among_files = true;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(options, temp_.Join("store"), &store).ok());
  {
    StoreDir dir;
    ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {}).ok());
    EXPECT_FALSE(dir.Empty().ok());
    EXPECT_TRUE(Has("store/manifest"));
  }
  store.reset();
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {}).ok());
  EXPECT_TRUE(dir.Empty().ok());
  EXPECT_FALSE(Has("store/manifest"));
}

TEST_F(StoreDirTest, AdoptsWhatIsThere) {
  StoreDir dir;
  EXPECT_FALSE(dir.Adopt("", {}).ok());
  EXPECT_FALSE(dir.Adopt(temp_.Join("store"), {}).ok());
  Touch("store/manifest");
  EXPECT_TRUE(dir.Adopt(temp_.Join("store"), {}).ok());
  EXPECT_GT(dir.AllocatedBytes(), 0u);
}

TEST_F(StoreDirTest, BytesOnARawDeviceAreNotKnown) {
  const std::string error = test::MakeDeviceNode(temp_.Join("device"));
  if (!error.empty()) GTEST_SKIP() << error;
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {temp_.Join("device")}).ok());
  EXPECT_FALSE(dir.AllocatedBytes());
}

}  // namespace
}  // namespace engine_race::harness
