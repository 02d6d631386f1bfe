// bin/numa as a whole, on whatever machine this is: usually one node.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/numa/instance_process.h"
#include "test/e2e/engine_fixture.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class NumaProgramTest : public ProgramTest {
 protected:
  NumaProgramTest() : ProgramTest("numa") {}

  ChildResult Numa(const std::vector<std::string>& args) const { return RunWith(args, {}); }

  ChildResult Race(const std::vector<std::string>& flags) const {
    return RunWith({"race", "--dir", dir_, "--threads", "3", "--num", "100", "--json", json()},
                   flags);
  }

  std::string json() const { return temp_.Join("figures.json"); }

  const std::string dir_ = temp_.Join("instances");
};

TEST_F(NumaProgramTest, ReportsAndComparesProcesses) {
  if (::access("/proc/self/numa_maps", R_OK) != 0) GTEST_SKIP() << "a kernel without NUMA";
  const std::string pid = std::to_string(::getpid());
  const ChildResult first = Numa({"report", pid, "--json", json()});
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_NE(first.output.find("anonymous"), std::string::npos);
  const nlohmann::json figures = LoadJson(json());
  ASSERT_TRUE(figures.is_object());
  EXPECT_EQ(figures["processes"][0]["pid"], ::getpid());
  EXPECT_GT(figures["processes"][0]["code"]["bytes"], 0);
  const ChildResult second = Numa({"report", pid, pid, "--compare", json()});
  ASSERT_EQ(second.exit_code, 0) << second.output;
  EXPECT_NE(second.output.find(pid + ", " + pid + " code"), std::string::npos) << second.output;
  EXPECT_NE(second.output.find("-, " + pid + " code"), std::string::npos) << second.output;
}

TEST_F(NumaProgramTest, ReportRefusesWhatItCannotRead) {
  EXPECT_EQ(Numa({"report", "2147483646"}).exit_code, 2);
  EXPECT_EQ(Numa({"report", std::to_string(::getpid()), "--nodes", "1022"}).exit_code, 2);
  EXPECT_EQ(Numa({"report", std::to_string(::getpid()), "--compare", "/none"}).exit_code, 2);
  EXPECT_NE(Numa({"report"}).exit_code, 0);
}

TEST_F(NumaProgramTest, CopySaysItsNameAndWhatIsWrong) {
  const std::string copy = temp_.Join("copy");
  const ChildResult no_list = Numa({"copy", program_, copy, "0-x"});
  EXPECT_EQ(no_list.exit_code, 2);
  EXPECT_EQ(no_list.output, "numa copy: 0-x is no list of nodes\n");
  const ChildResult no_source = Numa({"copy", temp_.Join("none"), copy, "0"});
  EXPECT_EQ(no_source.exit_code, 2);
  EXPECT_TRUE(no_source.output.starts_with("numa copy: ")) << no_source.output;
  EXPECT_FALSE(fs::exists(copy));
}

TEST_F(NumaProgramTest, RunsTheInstancesFromOneProgram) {
  for (const std::string text : {"shared", "remap"}) {
    const ChildResult run = Race({"--groups", "1", "--text", text});
    ASSERT_EQ(run.exit_code, 0) << text << run.output;
    const nlohmann::json figures = LoadJson(json());
    ASSERT_TRUE(figures.is_object()) << text;
    EXPECT_EQ(figures["text"], text);
    ASSERT_EQ(figures["instances"].size(), 1u);
    ASSERT_EQ(figures["sums"].size(), 3u);
    EXPECT_EQ(figures["sums"][0]["bytes"], 300 * 4096);
    EXPECT_EQ(figures["sums"][2]["bytes"], 2 * 300 * 4096);
    EXPECT_TRUE(fs::exists(dir_ + "/instance_0/store/manifest"));
    if (::access("/proc/self/numa_maps", R_OK) != 0) continue;
    for (const auto& phase : figures["instances"][0]["phases"]) {
      EXPECT_GT(phase["placement"]["code"]["bytes"], 0) << text;
    }
    EXPECT_EQ(figures["code_local"], 1.0);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(NumaProgramTest, RunsACopyOfTheProgram) {
  const std::string parts = "0-0xfffffffffffffff,0x1000000000000000-0xffffffffffffffff";
  EXPECT_EQ(Race({"--groups", "1", "--key-ranges", parts}).exit_code, 2);
  const ChildResult run = Race({"--groups", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(LoadJson(json())["text"], "copies");
  EXPECT_FALSE(fs::exists(dir_ + "/instance_0/instance_race"));
  // Again in the same place, and beside a store that is no race's.
  EXPECT_EQ(Race({"--groups", "1"}).exit_code, 0);
  std::ofstream(dir_ + "/instance_0/store/thesis.txt") << "x";
  EXPECT_EQ(Race({"--groups", "1"}).exit_code, 1);
  EXPECT_TRUE(fs::exists(dir_ + "/instance_0/store/thesis.txt"));
  // A program in the place of the copy is no copy that the launcher may remove.
  const std::string program = dir_ + "/instance_0/instance_race";
  fs::copy_file(ProgramPath("race_static"), program);
  EXPECT_EQ(Race({"--groups", "1", "--binary", program}).exit_code, 2);
  EXPECT_TRUE(fs::exists(program));
}
#endif

TEST_F(NumaProgramTest, WithoutADirectoryNothingIsLeft) {
  const std::string here = temp_.Join("here");
  fs::create_directory(here);
  const ChildResult run =
      RunChild({"env", "-C", here, program_, "race", "--groups", "1", "--text", "shared",
                "--threads", "3", "--num", "100", "--phases", "write"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(fs::is_empty(here));
}

TEST_F(NumaProgramTest, WhatIsWrongIsSaidBeforeAnythingIsMade) {
  std::vector<std::vector<std::string>> wrong = {
      {"--nodes", "1022"},
      {"--nodes", "0", "0"},
      {"--groups", "900"},
      {"--groups", "1", "--key-ranges", "0:5"},
      {"--groups", "1", "--key-ranges", "nonsense"},
      {"--groups", "1", "--dirs", temp_.Join("none")},
      {"--groups", "1", "--binary", temp_.Join("none")},
      // Linked with libraries, whose text copies would share.
      {"--groups", "1", "--binary", ProgramPath("race"), "--text", "copies"},
      {"--groups", "1", "--text", "shared", "--numa", "nonsense"},
      {"--groups", "1", "--text", "shared", "--numa", "bind"},
  };
  if (KernelShowsNodes()) {
    wrong.push_back({"--groups", "1", "--text", "shared", "--numa", "bind:1023"});
  }
  for (const auto& flags : wrong) {
    EXPECT_EQ(Race(flags).exit_code, 2) << flags[1];
    EXPECT_FALSE(fs::exists(dir_)) << flags[1];
    EXPECT_FALSE(fs::exists(json())) << flags[1];
  }
  EXPECT_EQ(Race({"--groups", "1", "--text", "shared", "--memory-limit", "1K"}).exit_code, 2);
  for (const char* flag : {"--json", "--table"}) {
    const std::string missing_dir = temp_.Join("none/figures");
    EXPECT_EQ(Numa({"race", "--text", "shared", "--dir", dir_, flag, missing_dir}).exit_code, 2);
    EXPECT_EQ(Numa({"race", "--text", "shared", "--dir", dir_, flag, temp_.path()}).exit_code, 2);
  }
  EXPECT_EQ(Numa({"race", "--dir", dir_, "--num", "10000000000"}).exit_code, 2);
  EXPECT_FALSE(fs::exists(dir_));
  // 4096 bytes each would be 0 modulo 2^64.
  EXPECT_NE(Numa({"race", "--dir", dir_, "--num", "288230376151711744"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(dir_));
}

TEST_F(NumaProgramTest, ADirectoryThatCannotBeWrittenIsRefused) {
  fs::create_directory(dir_);
  fs::permissions(dir_, fs::perms::owner_read | fs::perms::owner_exec);
  for (const std::string flag : {"--dirs", "--dir"}) {
    const int exit_code = test::InChild([&] {
      // Root may write everywhere only by this capability, which its programs no longer get.
      if (::geteuid() == 0 && ::prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0) return 100;
      return Numa({"race", "--groups", "1", "--text", "shared", flag, dir_}).exit_code;
    });
    EXPECT_EQ(exit_code, 2) << flag;
  }
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(NumaProgramTest, ASecondLauncherInTheSameDirectoryIsRefused) {
  InstanceDirs first;
  ASSERT_TRUE(first.Take(dir_ + "/instance_0").ok());
  EXPECT_EQ(Race({"--groups", "1", "--text", "shared"}).exit_code, 2);
  EXPECT_TRUE(fs::is_empty(dir_ + "/instance_0"));
}

}  // namespace
}  // namespace engine_race::harness
