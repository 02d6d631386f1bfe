// bin/compare as a whole, tiny.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/process.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

class CompareProgramTest : public ProgramTest {
 protected:
  CompareProgramTest() : ProgramTest("compare") {}

  ChildResult Run(const std::vector<std::string>& flags) const {
    std::vector<std::string> args = {"--dir", dir(), "--rounds", "1", "--no_fio", "--json", json()};
    for (const auto& [flag, value] :
         {std::pair("--gib", "0.001"), std::pair("--threads", "3"), std::pair("--openings", "2")}) {
      if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
      args.insert(args.end(), {flag, value});
    }
    return RunWith(args, flags);
  }
  std::string dir() const { return temp_.Join("work"); }
  std::string json() const { return temp_.Join("figures.json"); }
  nlohmann::json Figures() const { return LoadJson(json()); }
};

TEST_F(CompareProgramTest, RunsEveryStoreThroughEveryPhase) {
  const ChildResult run = Run({"--openings", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_TRUE(figures.is_object());
  EXPECT_EQ(figures["kind"], "compare");
  EXPECT_TRUE(figures["errors"].empty()) << figures["errors"];
  const size_t store_count = Peers().size() + 1;
  std::map<std::pair<std::string, std::string>, size_t> seen;
  for (const nlohmann::json& one : figures["runs"]) {
    ++seen[{one["store"].get<std::string>(), one["phase"].get<std::string>()}];
    EXPECT_TRUE(one["finished"]) << one;
    EXPECT_GT(one["operations"], 0) << one;
    EXPECT_GT(one["rss_peak_bytes"], 0) << one;
    EXPECT_LT(one["position"], store_count);
    EXPECT_TRUE(one["page_cache_drop"].is_string());
    EXPECT_TRUE(one["program_locked"].is_boolean());
    EXPECT_EQ(one["memory_cap_bytes"], figures["config"]["memory_cap_bytes"]);
    EXPECT_EQ(one["cgroup_version"] == 0, one["memory_cap_bytes"] == 0);
  }
  EXPECT_EQ(seen.size(), store_count * 5);
  EXPECT_EQ((seen[{kEngineName, kOpenPhase}]), 3u);
  EXPECT_EQ((seen[{kEngineName, kOpenAfterLoadPhase}]), 1u);
  EXPECT_EQ(figures["summary"].size(), seen.size());
  EXPECT_EQ(figures["stores"].size(), store_count);
  EXPECT_TRUE(figures["failed_runs"].empty());
  EXPECT_TRUE(figures["claims"].contains("space_amplification_uniform"));
  const bool has_cap = figures["config"]["memory_cap_bytes"] > 0;
  EXPECT_EQ(figures["claims"].contains("write_vs_best_peer"), MissingPeers().empty() && has_cap);
  EXPECT_TRUE(std::filesystem::is_empty(dir()));
}

TEST_F(CompareProgramTest, EveryStoreTakesValuesOfAnySize) {
  for (const std::string size : {"100", "16384"}) {
    const ChildResult run = Run({"--value_size", size, "--benchmarks", "fillseq,readrandom"});
    ASSERT_EQ(run.exit_code, 0) << size << run.output;
    const nlohmann::json figures = Figures();
    EXPECT_TRUE(figures["errors"].empty()) << figures["errors"];
    EXPECT_EQ(std::to_string(figures["config"]["value_size"].get<int>()), size);
    EXPECT_EQ(figures["stores"].size(), Peers().size() + 1);
  }
}

TEST_F(CompareProgramTest, AStoreThatIsTooSlowCountsByItsRate) {
  // No store can write a GiB within these limits.
  const ChildResult run = Run({"--gib", "1", "--phase_seconds", "1e-6", "--fill_seconds", "1e-6",
                               "--stores", "engine_race", "--phases", "read"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("unfinished"), std::string::npos) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 3u);
  const nlohmann::json& written = figures["runs"][0];
  EXPECT_EQ(written["phase"], kWritePhase);
  EXPECT_GT(written["operations_per_s"], 0);
  const nlohmann::json& read = figures["runs"][2];
  EXPECT_EQ(read["phase"], kReadPhase);
  EXPECT_FALSE(read["has_all_records"]);
  // The rest of the records has been tried as well.
  EXPECT_GT(read["records"], written["records"]);
  EXPECT_GT(read["operations_per_s"], 0);
  EXPECT_FALSE(figures["claims"].contains("read_vs_best_peer"));
}

TEST_F(CompareProgramTest, TheRestOfTheRecordsIsWrittenWithoutBeingMeasured) {
  const ChildResult run = Run({"--phase_seconds", "1000", "--fill_seconds", "1e-6", "--stores",
                               "engine_race", "--phases", "range", "--gib", "0.0003"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 3u) << figures["runs"];
  const nlohmann::json& written = figures["runs"][0];
  EXPECT_FALSE(written["finished"]);
  EXPECT_LT(written["records"], figures["config"]["records"]);
  const nlohmann::json& ranged = figures["runs"][2];
  EXPECT_EQ(ranged["phase"], kRangePhase);
  EXPECT_TRUE(ranged["finished"]);
  EXPECT_TRUE(ranged["has_all_records"]);
  EXPECT_EQ(ranged["records"], figures["config"]["records"]);
}

// An order of a writing that never ends.
class ComparedPhaseTest : public CompareProgramTest {
 protected:
  void SetUp() override {
    CompareProgramTest::SetUp();
    order_.store = kEngineName;
    order_.phase = kWritePhase;
    order_.dir = temp_.Join("store");
    std::filesystem::create_directory(order_.dir);
    order_.thread_count = 2;
    order_.record_count = uint64_t{1} << 40;
    order_.phase_seconds = 1e6;
    order_.process_seconds = 1e6;
    order_.memory_budget_bytes = uint64_t{256} << 20;
  }
  std::vector<std::string> Command() const {
    return {program_, "--child", kCompareWork, nlohmann::json(order_).dump(), parent_};
  }
  CompareAnswer Answer() const {
    const ChildResult run = RunChild(Command());
    return ParseAnswer(run.output).value().get<CompareAnswer>();
  }

  CompareOrder order_;
  std::string parent_ = "0";
};

TEST_F(ComparedPhaseTest, AStoreThatDoesNotCloseIsAFailure) {
  order_.process_seconds = 1;
  const CompareAnswer answer = Answer();
  EXPECT_NE(answer.error.find("not closed"), std::string::npos) << answer.error;
  EXPECT_FALSE(answer.run["finished"]);
  EXPECT_EQ(answer.OperationsPerSecond(), 0);
}

TEST_F(ComparedPhaseTest, AnOrphanDoesNotBegin) {
  parent_ = std::to_string(::getpid() + 1);
  const ChildResult run = RunChild(Command());
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(run.output, "");
  EXPECT_TRUE(std::filesystem::is_empty(order_.dir));
}

TEST_F(ComparedPhaseTest, AnErrorIsAnAnswer) {
  order_.store = "oracle";
  EXPECT_NE(Answer().error.find("oracle"), std::string::npos);
  order_.store = kEngineName;
  order_.cgroup = temp_.Join("no group");
  EXPECT_NE(Answer().error.find("no group"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(order_.dir));
}

TEST_F(CompareProgramTest, RunsBenchmarksAlone) {
  const ChildResult run = Run({"--only", "benchmarks", "--benchmarks", "fillseq,readrandom,scanall",
                               "--stores", "engine_race", "--dense_keys"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 3u);
  EXPECT_EQ(figures["runs"][0]["phase"], "fillseq");
  EXPECT_EQ(figures["runs"][2]["phase"], "scanall");
  for (const nlohmann::json& one : figures["runs"]) {
    EXPECT_EQ(one["records"], figures["config"]["records"]) << one;
  }
  EXPECT_TRUE(figures["runs"][1]["has_all_records"]);
}

TEST_F(CompareProgramTest, WhatAnUnfinishedFillLeavesIsMarked) {
  const ChildResult run =
      Run({"--only", "benchmarks", "--benchmarks", "fillseq,readrandom,ycsbload,ycsbc", "--stores",
           "engine_race", "--gib", "1", "--phase_seconds", "1", "--fill_seconds", "1e-6"});
  // A workload of YCSB needs all of its records.
  EXPECT_EQ(run.exit_code, 1) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 3u) << figures["errors"];
  EXPECT_FALSE(figures["runs"][0]["finished"]);
  EXPECT_EQ(figures["runs"][1]["phase"], "readrandom");
  EXPECT_FALSE(figures["runs"][1]["has_all_records"]);
  EXPECT_EQ(figures["runs"][1]["records"], figures["runs"][0]["records"]);
  EXPECT_FALSE(figures["runs"][2]["finished"]);
  ASSERT_EQ(figures["errors"].size(), 1u);
  EXPECT_NE(figures["errors"][0].get<std::string>().find("the fill before it did not finish"),
            std::string::npos);
}

// `compare 2>&1 | head -1` closes the pipe early. The figures are saved all the same.
TEST_F(CompareProgramTest, AClosedPipeLosesNoFigures) {
  int pipe_fds[2] = {-1, -1};
  ASSERT_EQ(::pipe(pipe_fds), 0);
  ::close(pipe_fds[0]);
  const std::string closed = std::to_string(pipe_fds[1]);
  const std::string code = temp_.Join("code");
  RunChild({"bash", "-c",
            program_ + " --dir " + dir() + " --json " + json() +
                " --gib 0.001 --threads 3 --rounds 1 --no_fio --stores engine_race --phases write" +
                " >&" + closed + " 2>&1; echo $? > " + code});
  ::close(pipe_fds[1]);
  std::string text;
  std::ifstream(code) >> text;
  EXPECT_EQ(text, "1");
  EXPECT_EQ(Figures()["runs"].size(), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(dir()));
}

TEST_F(CompareProgramTest, APathThatIsNotUtf8IsRefused) {
  const std::string odd = temp_.Join("odd\xff");
  const ChildResult run =
      RunChild({program_, "--dir", odd, "--smoke", "--no_fio", "--stores", "engine_race"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(odd));
}

TEST_F(CompareProgramTest, TakesOverClaims) {
  const std::string other = temp_.Join("other.json");
  std::ofstream(other) << R"({"claims": {"c_api_cost": 0.0125}})";
  const ChildResult run = Run({"--merge", other, "--stores", "engine_race", "--phases", "open"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Figures()["claims"]["c_api_cost"], 0.0125);
  EXPECT_TRUE(Figures()["merged"].contains("other.json"));

  std::ofstream(other) << R"({"claims": {"no_claim": 1, "c_api_cost": "low"}})";
  const ChildResult wrong = Run({"--merge", other, "--stores", "engine_race", "--phases", "open"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.output.find("there is no claim no_claim"), std::string::npos) << wrong.output;
  EXPECT_NE(wrong.output.find("c_api_cost is not a number"), std::string::npos) << wrong.output;
  const ChildResult missing =
      Run({"--merge", temp_.Join("none"), "--stores", "engine_race", "--phases", "open"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.output.find("no claims"), std::string::npos) << missing.output;
}

TEST_F(CompareProgramTest, SaysWhyClaimsAreMissing) {
  const std::string other = temp_.Join("other.json");
  std::ofstream(other) << R"({"claims": {}, "errors": ["no disk"],
                              "not_measured": {"c_api_cost": "no tmpfs", "no_claim": "unknown"}})";
  const ChildResult run = Run({"--merge", other, "--stores", "engine_race", "--phases", "open"});
  EXPECT_EQ(run.exit_code, 1);
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["errors"].size(), 1u);
  EXPECT_NE(figures["errors"][0].get<std::string>().find("no disk"), std::string::npos);
  const nlohmann::json& reasons = figures["not_measured"];
  EXPECT_EQ(reasons["c_api_cost"], "no tmpfs");
  EXPECT_EQ(reasons["python_hot_ratio"], "no merged file has it");
  EXPECT_EQ(reasons["read_vs_best_peer"], "the phase read was not chosen");
  EXPECT_FALSE(reasons.contains("no_claim"));
  EXPECT_FALSE(reasons.contains("write_amplification") &&
               figures["claims"].contains("write_amplification"));
  EXPECT_NE(run.output.find("not measured: c_api_cost: no tmpfs"), std::string::npos) << run.output;
}

TEST_F(CompareProgramTest, ChecksAlone) {
  ASSERT_EQ(Run({"--check_only"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(json()));
  const ChildResult huge = Run({"--check_only", "--gib", "60000"});
  EXPECT_EQ(huge.exit_code, 2);
}

TEST_F(CompareProgramTest, RefusesWhatItCannotDo) {
  EXPECT_NE(Run({"--stores", "oracle"}).exit_code, 0);
  EXPECT_NE(Run({"--phases", "fly"}).exit_code, 0);
  EXPECT_NE(Run({"--benchmarks", "fillnothing"}).exit_code, 0);
  // No store syncs its writes.
  EXPECT_NE(Run({"--benchmarks", "fillsync"}).exit_code, 0);
  EXPECT_EQ(Run({"--benchmarks", "readrandom"}).exit_code, 2);
  EXPECT_EQ(Run({"--only", "benchmarks", "--benchmarks", "overwrite,fillseq"}).exit_code, 2);
  EXPECT_EQ(Run({"--benchmarks", "fillseq,ycsbc"}).exit_code, 2);
  EXPECT_NE(Run({"--only", "half"}).exit_code, 0);
  EXPECT_EQ(Run({"--only", "benchmarks"}).exit_code, 2);
  EXPECT_NE(Run({"--threads", "0"}).exit_code, 0);
  EXPECT_NE(Run({"--seed", "x"}).exit_code, 0);
  EXPECT_EQ(Run({"--gib", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"--gib", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"--gib", "nan"}).exit_code, 2);
  EXPECT_EQ(Run({"--gib", "60000"}).exit_code, 2);
  EXPECT_EQ(Run({"--memory_gib", "0.01"}).exit_code, 2);
  EXPECT_EQ(Run({"--budget_gib", "0.001"}).exit_code, 2);
  EXPECT_EQ(Run({"--phase_seconds", "0"}).exit_code, 2);
  EXPECT_NE(Run({"--openings", "0"}).exit_code, 0);
  EXPECT_EQ(Run({"--fill_seconds", "1e7"}).exit_code, 2);
  EXPECT_NE(Run({"--fill_seconds", "inf"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(json()));
  std::filesystem::create_directory(dir());
  std::ofstream(dir() + "/foreign") << "keep me";
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(dir() + "/foreign"));
  EXPECT_EQ(RunChild({program_, "--child", kCompareWork, "{}", "0"}).exit_code, 2);
}

}  // namespace
}  // namespace engine_race::harness
