#include "harness/system/work_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class WorkDirTest : public ::testing::Test {
 protected:
  void Touch(const std::string& name) { std::ofstream(temp_.Join(name)) << "x"; }

  test::TempDir temp_;
  std::string error_;
};

TEST_F(WorkDirTest, MakesAMissingDirectoryAndLeavesIt) {
  {
    WorkDir dir;
    ASSERT_TRUE(dir.Prepare(temp_.Join("new"), &error_)) << error_;
    EXPECT_EQ(dir.path(), temp_.Join("new"));
  }
  EXPECT_TRUE(fs::is_directory(temp_.Join("new")));
}

TEST_F(WorkDirTest, RemovesADirectoryThatItMadeUp) {
  const fs::path before = fs::current_path();
  fs::current_path(temp_.path());
  {
    WorkDir dir;
    ASSERT_TRUE(dir.Prepare("", &error_)) << error_;
    EXPECT_TRUE(fs::is_directory(dir.path()));
    EXPECT_FALSE(fs::is_empty(temp_.path()));
  }
  EXPECT_TRUE(fs::is_empty(temp_.path()));
  fs::current_path(before);
}

TEST_F(WorkDirTest, RefusesFilesThatTheCallerDoesNotKnow) {
  Touch("known");
  {
    WorkDir dir;
    EXPECT_FALSE(dir.Prepare(temp_.path(), &error_));
    EXPECT_NE(error_.find("known"), std::string::npos) << error_;
  }
  const auto is_known = [](const std::string& name) { return name == "known"; };
  {
    WorkDir dir;
    EXPECT_TRUE(dir.Prepare(temp_.path(), &error_, is_known)) << error_;
  }
  Touch("foreign");
  WorkDir dir;
  EXPECT_FALSE(dir.Prepare(temp_.path(), &error_, is_known));
  EXPECT_NE(error_.find("foreign"), std::string::npos) << error_;
  EXPECT_TRUE(fs::exists(temp_.Join("foreign")));
}

TEST_F(WorkDirTest, AnEmptyFileSystemIsEmpty) {
  fs::create_directory(temp_.Join("lost+found"));
  WorkDir dir;
  EXPECT_TRUE(dir.Prepare(temp_.path(), &error_)) << error_;
}

}  // namespace
}  // namespace engine_race::harness
