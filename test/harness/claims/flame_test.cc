// scripts/flame without perf: what `perf script` prints becomes folded stacks, and these a picture.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "harness/system/child_process.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

constexpr char kPerfScript[] =
    "profile \n"
    "\t    55d0 engine_race::Index::FirstKeys(unsigned long, std::span<unsigned long, 8ul>) const\n"
    "\t    4410 unsigned long harness::SumRange<std::basic_string_view<char>, "
    "engine_race::Iterator>(engine_race::Iterator*, unsigned long)\n"
    "\t       0 [unknown]\n"
    "\t    1234 main\n"
    "\n"
    "profile \n"
    "\tffffff01 do_syscall_64\n"
    "\t    1234 main\n"
    "\n"
    "profile \n"
    "\tffffff01 do_syscall_64\n"
    "\t    1299 main\n"
    "\n"
    "worker 7 \n"
    "\t    77aa std::vector<(anonymous namespace)::A<int>, B>::operator[](unsigned long)\n"
    "\t    7bcd harness::(anonymous namespace)::Run(int)::{lambda(int)#1}::operator()(int) const\n"
    "\t    7bce operator<<(std::ostream&, Text<3> const&) [clone .cold]\n"
    "\n"
    "profile \n"
    "\t       0 [unknown]\n";

constexpr char kFolded[] =
    "profile;[unknown] 1\n"
    "profile;main;do_syscall_64 2\n"
    "profile;main;harness::SumRange;engine_race::Index::FirstKeys 1\n"
    "worker 7;operator<<;harness::Run::{lambda#1}::operator();std::vector::operator[] 1\n";

class FlameTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("scripts/flame")) GTEST_SKIP() << "not run from the root";
    if (RunChild({"python3", "--version"}).exit_code != 0) GTEST_SKIP() << "no python3";
  }

  // Runs the script on `text` and returns its output.
  std::string Made(const std::string& action, const std::string& text) const {
    std::ofstream(temp_.Join("in")) << text;
    const ChildResult run =
        RunChild({"python3", "scripts/flame", action, temp_.Join("in"), temp_.Join("out")});
    EXPECT_EQ(run.exit_code, 0) << run.output;
    std::ostringstream made;
    made << std::ifstream(temp_.Join("out")).rdbuf();
    return made.str();
  }

  test::TempDir temp_{test::FastParent()};
};

TEST_F(FlameTest, FoldsStacksFromTheirRoots) { EXPECT_EQ(Made("fold", kPerfScript), kFolded); }

TEST_F(FlameTest, DrawsEveryFrameWithItsShare) {
  const std::string svg = Made("svg", kFolded);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  for (const char* title :
       {"<title>all (5 samples, 100.0 %)</title>", "<title>main (3 samples, 60.0 %)</title>",
        "<title>do_syscall_64 (2 samples, 40.0 %)</title>",
        "<title>operator&lt;&lt; (1 samples, 20.0 %)</title>"}) {
    EXPECT_NE(svg.find(title), std::string::npos) << title;
  }
  // The picture needs no other file.
  EXPECT_EQ(svg.find("href"), std::string::npos);
}

TEST_F(FlameTest, SameInputSamePicture) { EXPECT_EQ(Made("svg", kFolded), Made("svg", kFolded)); }

}  // namespace
}  // namespace engine_race::harness
