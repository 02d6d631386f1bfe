// What is written where the user asked for it, and what a trial leaves alone.
#include "harness/measure/table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

TEST(ResultFileTest, ATrialLeavesNoFile) {
  const test::TempDir temp;
  EXPECT_TRUE(CanSave(""));
  EXPECT_TRUE(CanSave(temp.Join("made/figures.json")));
  EXPECT_TRUE(fs::is_empty(temp.Join("made")));
  EXPECT_FALSE(CanSave(temp.Join("made")));
  std::ofstream(temp.Join("file")) << "kept";
  EXPECT_FALSE(CanSave(temp.Join("file/figures.json")));
  EXPECT_TRUE(CanSave(temp.Join("file")));
  EXPECT_EQ(fs::file_size(temp.Join("file")), 4u);
}

TEST(ResultFileTest, ATrialLeavesASymlinkAlone) {
  const test::TempDir temp;
  fs::create_symlink(temp.Join("target"), temp.Join("link"));
  EXPECT_TRUE(CanSave(temp.Join("link")));
  EXPECT_TRUE(fs::is_symlink(temp.Join("link")));
  EXPECT_FALSE(fs::exists(temp.Join("target")));
  ASSERT_TRUE(SaveText("figures", temp.Join("link")));
  EXPECT_TRUE(CanSave(temp.Join("link")));
  EXPECT_EQ(fs::file_size(temp.Join("target")), 7u);
}

// A trial that opened the pipe would wait for its reader.
TEST(ResultFileTest, ATrialDoesNotOpenAPipe) {
  const test::TempDir temp;
  ASSERT_EQ(::mkfifo(temp.Join("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(CanSave(temp.Join("pipe")));
  EXPECT_TRUE(fs::is_fifo(temp.Join("pipe")));
}

}  // namespace
}  // namespace engine_race::harness
