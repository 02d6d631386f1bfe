// bin/compare as a whole, tiny.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/order.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace harness {
namespace {

class CompareProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    program_ = ProgramPath("compare");
    if (program_.empty()) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
  }

  ChildResult Run(const std::vector<std::string>& flags) const {
    std::vector<std::string> args = {program_, "--dir",    dir(),    "--rounds",
                                     "1",      "--no_fio", "--json", json()};
    for (const auto& [flag, value] : {std::pair("--gib", "0.001"), std::pair("--threads", "3")}) {
      if (std::find(flags.begin(), flags.end(), flag) != flags.end()) continue;
      args.insert(args.end(), {flag, value});
    }
    args.insert(args.end(), flags.begin(), flags.end());
    return RunChild(args);
  }
  std::string dir() const { return temp_.Join("work"); }
  std::string json() const { return temp_.Join("figures.json"); }
  nlohmann::json Figures() const {
    std::ifstream file(json());
    return nlohmann::json::parse(file, nullptr, false);
  }

  const engine_race::test::TempDir temp_{engine_race::test::FastParent()};
  std::string program_;
};

TEST_F(CompareProgramTest, RunsEveryStoreThroughEveryPhase) {
  const ChildResult run = Run({});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_TRUE(figures.is_object());
  EXPECT_EQ(figures["kind"], "compare");
  EXPECT_TRUE(figures["errors"].empty()) << figures["errors"];
  std::set<std::pair<std::string, std::string>> seen;
  for (const nlohmann::json& one : figures["runs"]) {
    seen.emplace(one["store"], one["phase"]);
    EXPECT_TRUE(one["finished"]) << one;
    EXPECT_GT(one["operations"], 0) << one;
    EXPECT_GT(one["rss_peak_bytes"], 0) << one;
  }
  EXPECT_EQ(seen.size(), (Peers().size() + 1) * 4);
  EXPECT_EQ(figures["summary"].size(), seen.size());
  EXPECT_EQ(figures["stores"].size(), Peers().size() + 1);
  EXPECT_TRUE(figures["claims"].contains("space_amplification_uniform"));
  EXPECT_EQ(figures["claims"].contains("write_vs_best_peer"), !Peers().empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir()));
}

TEST_F(CompareProgramTest, AStoreThatIsTooSlowCountsByItsRate) {
  const ChildResult run = Run({"--gib", "1", "--phase_seconds", "0.02", "--fill_seconds", "0.05",
                               "--stores", "engine_race", "--phases", "read"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("unfinished"), std::string::npos) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 2u);
  for (const nlohmann::json& one : figures["runs"]) {
    EXPECT_FALSE(one["finished"]);
    EXPECT_FALSE(one["has_all_records"]);
    EXPECT_GT(one["records"], 0);
    EXPECT_GT(one["operations_per_s"], 0);
  }
  EXPECT_FALSE(figures["claims"].contains("read_vs_best_peer"));
}

TEST_F(CompareProgramTest, AStoreThatDoesNotCloseCountsByItsRate) {
  CompareOrder order;
  order.store = kEngineName;
  order.phase = kWritePhase;
  order.dir = temp_.Join("store");
  std::filesystem::create_directory(order.dir);
  order.thread_count = 2;
  order.record_count = uint64_t{1} << 40;
  order.phase_seconds = 1e6;
  order.process_seconds = 2.5;
  order.memory_budget_bytes = uint64_t{256} << 20;
  const ChildResult run =
      RunChild({program_, "--run-compared-phase", nlohmann::json(order).dump()});
  const auto answer = ParseCompareAnswer(run.output);
  ASSERT_TRUE(answer) << run.output;
  EXPECT_TRUE(answer->stuck);
  EXPECT_NE(answer->error.find("not closed"), std::string::npos) << answer->error;
  EXPECT_FALSE(answer->run["finished"]);
  EXPECT_GT(answer->OperationsPerSecond(), 0);
}

TEST_F(CompareProgramTest, RunsBenchmarksAlone) {
  const ChildResult run = Run({"--only", "benchmarks", "--benchmarks", "fillseq,readrandom,scanall",
                               "--stores", "engine_race", "--dense_keys"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json figures = Figures();
  ASSERT_EQ(figures["runs"].size(), 3u);
  EXPECT_EQ(figures["runs"][0]["phase"], "fillseq");
  EXPECT_EQ(figures["runs"][2]["phase"], "scanall");
}

TEST_F(CompareProgramTest, TakesOverClaims) {
  const std::string other = temp_.Join("other.json");
  std::ofstream(other) << R"({"claims": {"c_api_cost": 0.0125}})";
  const ChildResult run = Run({"--merge", other, "--stores", "engine_race", "--phases", "open"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  EXPECT_EQ(Figures()["claims"]["c_api_cost"], 0.0125);
  EXPECT_TRUE(Figures()["merged"].contains("other.json"));

  std::ofstream(other) << R"({"claims": {"no_claim": 1}})";
  EXPECT_EQ(Run({"--merge", other, "--stores", "engine_race", "--phases", "open"}).exit_code, 1);
  const ChildResult missing =
      Run({"--merge", temp_.Join("none"), "--stores", "engine_race", "--phases", "open"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.output.find("no claims"), std::string::npos) << missing.output;
}

TEST_F(CompareProgramTest, RefusesWhatItCannotDo) {
  EXPECT_NE(Run({"--stores", "oracle"}).exit_code, 0);
  EXPECT_NE(Run({"--phases", "fly"}).exit_code, 0);
  EXPECT_NE(Run({"--benchmarks", "fillnothing"}).exit_code, 0);
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
  EXPECT_EQ(Run({"--fill_seconds", "1e7"}).exit_code, 2);
  EXPECT_NE(Run({"--fill_seconds", "inf"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(json()));
  std::filesystem::create_directory(dir());
  std::ofstream(dir() + "/foreign") << "keep me";
  EXPECT_EQ(Run({}).exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(dir() + "/foreign"));
  EXPECT_EQ(RunChild({program_, "--run-compared-phase", "{}"}).exit_code, 2);
}

}  // namespace
}  // namespace harness
