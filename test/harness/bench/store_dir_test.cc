// The directories that benches empty, and those that they leave alone.
#include "harness/bench/store_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "test/test_util.h"

namespace harness {
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
    ASSERT_TRUE(dir.Prepare(temp_.Join("store"), value_paths, &error_)) << error_;
    ASSERT_TRUE(dir.Empty(&error_)) << error_;
    Touch("store/manifest");
  }

  engine_race::test::TempDir temp_;
  std::string error_;
};

TEST_F(StoreDirTest, EmptiesItsOwnStore) {
  MakeStore();
  EXPECT_TRUE(Has("store/manifest"));
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {}, &error_)) << error_;
  EXPECT_TRUE(Has("store/manifest"));
  ASSERT_TRUE(dir.Empty(&error_));
  EXPECT_FALSE(Has("store/manifest"));
}

TEST_F(StoreDirTest, LeavesOtherFilesAlone) {
  Touch("store/manifest");
  StoreDir dir;
  EXPECT_FALSE(dir.Prepare(temp_.Join("store"), {}, &error_));
  EXPECT_TRUE(Has("store/manifest"));
  fs::remove(temp_.Join("store/manifest"));
  MakeStore();
  Touch("store/letter");
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {}, &error_));
  EXPECT_NE(error_.find("letter"), std::string::npos) << error_;
}

TEST_F(StoreDirTest, LeavesValuesOfOtherStoresAlone) {
  Touch("values/value_00");
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}, &error_));
  MakeStore();
  // The store has no values there.
  EXPECT_FALSE(StoreDir().Prepare(temp_.Join("store"), {temp_.Join("values")}, &error_));
  EXPECT_TRUE(Has("values/value_00"));
}

TEST_F(StoreDirTest, EmptiesItsOwnValuePaths) {
  MakeStore({temp_.Join("values")});
  Touch("values/value_00");
  StoreDir dir;
  ASSERT_TRUE(dir.Prepare(temp_.Join("store"), {temp_.Join("values")}, &error_)) << error_;
  ASSERT_TRUE(dir.Empty(&error_));
  EXPECT_FALSE(Has("values/value_00"));
}

TEST_F(StoreDirTest, AdoptsWhatIsThere) {
  StoreDir dir;
  EXPECT_FALSE(dir.Adopt("", &error_));
  EXPECT_FALSE(dir.Adopt(temp_.Join("store"), &error_));
  Touch("store/manifest");
  EXPECT_TRUE(dir.Adopt(temp_.Join("store"), &error_));
  EXPECT_GT(dir.AllocatedBytes(), 0u);
}

}  // namespace
}  // namespace harness
