// The whole of `bin/lab io`: every experiment once, tiny; bad flags; an interrupt.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/experiments/io/lab.h"
#include "harness/system/child_process.h"
#include "test/harness/program_fixture.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class IoProgramTest : public LabFixture {
 protected:
  IoProgramTest() : LabFixture("io") {}
};

TEST_F(IoProgramTest, RunsEveryExperiment) {
  const ChildResult run = Run({"--smoke"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json report = Report();
  ASSERT_TRUE(report.is_object());
  EXPECT_TRUE(report["ok"]);
  EXPECT_FALSE(report["interrupted"]);
  EXPECT_TRUE(report["machine"].contains("cpu"));
  std::map<int, int> measured;
  for (const auto& experiment : report["experiments"]) {
    EXPECT_FALSE(experiment["rows"].empty()) << experiment["name"];
    for (const auto& row : experiment["rows"]) {
      EXPECT_FALSE(row.contains("error")) << row;
      const bool has_figure =
          row.value("requests_per_second", 0.0) > 0 || row.value("switch_ns", 0.0) > 0;
      EXPECT_NE(has_figure, row.contains("unavailable")) << experiment["name"] << row;
      if (has_figure) ++measured[experiment["number"]];
    }
    // The rows have the figures that the plots draw.
    const std::string x = experiment["plot"]["x"];
    EXPECT_TRUE(experiment["rows"][0].contains(x)) << experiment["name"] << x;
  }
  for (int number = 1; number <= kIoExperimentCount; ++number) {
    EXPECT_GE(measured[number], 2) << "experiment " << number;
  }
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(IoProgramTest, RunsOnTheGivenPathsAlone) {
  const std::vector<std::string> paths = {temp_.Join("a"), temp_.Join("b"), temp_.Join("c")};
  for (const std::string& path : paths) fs::create_directory(path);
  const ChildResult run = Run(
      {"--smoke", "--experiment", "1,2", "--paths", paths[0] + "," + paths[1] + "," + paths[2]});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(run.output.find("stand in"), std::string::npos) << run.output;
  int most_paths = 0;
  const nlohmann::json report = Report();
  for (const auto& experiment : report["experiments"]) {
    EXPECT_TRUE(experiment["number"] == 1 || experiment["number"] == 2);
    for (const auto& row : experiment["rows"]) {
      most_paths = std::max(most_paths, row.value("path_count", 0));
    }
  }
  EXPECT_EQ(most_paths, 3);
  for (const std::string& path : paths) EXPECT_TRUE(fs::is_empty(path));
}

TEST_F(IoProgramTest, RefusesFlagsThatMakeNoSense) {
  for (const std::string experiments : {"0", "10", "x", "1,,2", "", "3-", "1-99"}) {
    EXPECT_EQ(Run({"--experiment", experiments}).exit_code, 2) << experiments;
  }
  EXPECT_EQ(Run({"--paths", temp_.Join("missing")}).exit_code, 2);
  EXPECT_NE(Run({"--records", "3"}).exit_code, 0);
  // No disk has room for this many records.
  EXPECT_EQ(Run({"--records", "1000000000000"}).exit_code, 2);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(IoProgramTest, AnInterruptLeavesNothingBehind) {
  const ChildResult run =
      RunChild({"timeout", "--preserve-status", "-s", "INT", "2", program_, "io", "--dir", dir_,
                "--json", json_, "--experiment", "3", "--records", "4096", "--seconds", "30"});
  EXPECT_EQ(run.exit_code, 130) << run.output;
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST(IoCommandTest, ExperimentsAreNumbersAndRanges) {
  std::vector<int> numbers;
  ASSERT_TRUE(ParseExperiments("all", &numbers));
  EXPECT_EQ(numbers.size(), static_cast<size_t>(kIoExperimentCount));
  ASSERT_TRUE(ParseExperiments("9,2-4,3", &numbers));
  EXPECT_EQ(numbers, (std::vector<int>{2, 3, 4, 9}));
  EXPECT_FALSE(ParseExperiments("10", &numbers));
  EXPECT_FALSE(ParseExperiments("4-2", &numbers));
  EXPECT_FALSE(ParseExperiments("2-x", &numbers));
}

}  // namespace
}  // namespace engine_race::harness
