// The whole race program with few records, without the rates of the device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/harness/program_fixture.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

class RaceProgramTest : public ProgramTest {
 protected:
  RaceProgramTest() : ProgramTest("race", fs::temp_directory_path()) {}

  ChildResult Race(const std::vector<std::string>& flags) const {
    return RunWith({"--no-fio", "--dir", dir_, "--threads", "3", "--json", temp_.Join("race.json")},
                   flags);
  }
  nlohmann::json Report() const { return LoadJson(temp_.Join("race.json")); }

  const std::string dir_ = temp_.Join("store");
};

TEST_F(RaceProgramTest, RunsThreePhasesOverEveryShapeOfKeys) {
  for (const std::string keys : {"uniform", "sequential", "zipfian", "onebucket"}) {
    const ChildResult run = Race({"--num", "200", "--keys", keys});
    ASSERT_EQ(run.exit_code, 0) << keys << run.output;
    const nlohmann::json report = Report();
    ASSERT_TRUE(report.is_object()) << keys;
    EXPECT_TRUE(report["ok"]);
    ASSERT_EQ(report["phases"].size(), 3u);
    EXPECT_EQ(report["phases"][0]["engine"]["record_count"], 600);
    EXPECT_EQ(report["phases"][1]["engine"]["record_count"], 600);
    const int visited = report["phases"][2]["engine"]["record_count"];
    EXPECT_EQ(visited == 600, keys != "zipfian") << visited;
    for (const auto& phase : report["phases"]) EXPECT_GT(phase["engine"]["peak_rss_bytes"], 0);
  }
}

// What is wrong is found before the old store makes room for the new one.
TEST_F(RaceProgramTest, BadFlagsLeaveTheOldStore) {
  ASSERT_EQ(Race({"--num", "100", "--phases", "write"}).exit_code, 0);
  ASSERT_TRUE(fs::exists(dir_ + "/manifest"));
  std::vector<std::vector<std::string>> wrong = {
      {"--num", "100", "--key-range", "0:99"},
      {"--key-range", "0:1"},
      {"--num", "100", "--numa", "nonsense"},
      {"--num", "288230376151711744"},
  };
  if (KernelShowsNodes()) wrong.push_back({"--num", "100", "--numa", "bind:1023"});
  for (const auto& flags : wrong) {
    EXPECT_NE(Race(flags).exit_code, 0) << flags[1];
    EXPECT_TRUE(fs::exists(dir_ + "/manifest")) << flags[1];
  }
}

// Mixed phases leave the records that the range then expects.
TEST_F(RaceProgramTest, MixesReadsAndWrites) {
  for (const std::string keys : {"uniform", "zipfian"}) {
    ASSERT_EQ(Race({"--num", "200", "--keys", keys, "--phases", "write,mixed,range"}).exit_code, 0);
    const nlohmann::json report = Report();
    ASSERT_EQ(report["phases"].size(), 3u) << keys;
    EXPECT_EQ(report["phases"][1]["phase"], "mixed");
    EXPECT_EQ(report["phases"][1]["engine"]["record_count"], 600);
  }
}

TEST_F(RaceProgramTest, TakesValuesOfAnySize) {
  for (const std::string size : {"8", "100", "1536", "16384"}) {
    const ChildResult run = Race({"--num", "200", "--value_size", size});
    ASSERT_EQ(run.exit_code, 0) << run.output;
    EXPECT_NE(run.output.find("values of " + size + " bytes, not the contest's"),
              std::string::npos);
    const nlohmann::json report = Report();
    EXPECT_TRUE(report.contains("not_the_contest"));
    for (const auto& phase : report["phases"]) EXPECT_EQ(phase["engine"]["record_count"], 600);
    EXPECT_EQ(std::to_string(report["phases"][1]["engine"]["value_bytes"].get<int>()), size);
  }
  EXPECT_EQ(Race({"--phases", "read", "--value_size", "100"}).exit_code, 2);
  EXPECT_EQ(Race({"--num", "200", "--value_size", "7"}).exit_code, 2);
  const ChildResult contest = Race({"--num", "200", "--value_size", "4096"});
  ASSERT_EQ(contest.exit_code, 0) << contest.output;
  EXPECT_EQ(contest.output.find("not the contest"), std::string::npos);
  EXPECT_FALSE(Report().contains("not_the_contest"));
}

TEST_F(RaceProgramTest, KeepsToAKeyRange) {
  const std::string range = "0x4000000000000000-0x7fffffffffffffff";
  ASSERT_EQ(Race({"--num", "200", "--key-range", range}).exit_code, 0);
  EXPECT_EQ(Report()["phases"][2]["engine"]["record_count"], 600);
  EXPECT_EQ(Race({"--phases", "read", "--key-range", range}).exit_code, 0);
  EXPECT_EQ(Race({"--phases", "read"}).exit_code, 2);
  for (const std::string bad : {"5", "7-6", "a-b", "0-598", "0:599"}) {
    EXPECT_EQ(Race({"--num", "200", "--key-range", bad}).exit_code, 2) << bad;
  }
}

TEST_F(RaceProgramTest, PutsMemoryWhereItIsTold) {
  for (const std::string good : {"none", "interleave", "interleave:0", "bind:0"}) {
    EXPECT_EQ(Race({"--num", "100", "--numa", good}).exit_code, 0) << good;
  }
  for (const std::string bad :
       {"", "nowhere", "none:0", "bind", "bind:", "bind:x", "interleave:", "bind:1022"}) {
    if (bad == "bind:1022" && !KernelShowsNodes()) continue;
    EXPECT_EQ(Race({"--num", "100", "--numa", bad}).exit_code, 2) << bad;
  }
}

TEST_F(RaceProgramTest, RunsFromTextOfItsOwn) {
  EXPECT_EQ(Race({"--num", "200", "--own-text"}).exit_code, 0);
}

TEST_F(RaceProgramTest, GoesOnWithAStoreThatLiesThere) {
  ASSERT_EQ(Race({"--num", "50", "--phases", "write"}).exit_code, 0);
  EXPECT_EQ(Race({"--phases", "read,range"}).exit_code, 0);
  EXPECT_EQ(Report()["phases"].size(), 2u);
  EXPECT_EQ(Race({"--phases", "read", "--seed", "2"}).exit_code, 2);
  EXPECT_EQ(Race({"--phases", "read", "--num", "51"}).exit_code, 2);
}

TEST_F(RaceProgramTest, RefusesADirectoryThatIsNotARaces) {
  fs::create_directory(dir_);
  std::ofstream(dir_ + "/thesis.txt") << "x";
  EXPECT_EQ(Race({"--num", "50"}).exit_code, 2);
  EXPECT_TRUE(fs::exists(dir_ + "/thesis.txt"));
}

TEST_F(RaceProgramTest, MissingRecordsFailTheRace) {
  ASSERT_EQ(Race({"--num", "200", "--phases", "write"}).exit_code, 0);
  // Replaces the written store by an empty one.
  for (const auto& entry : fs::directory_iterator(dir_)) {
    if (entry.path().filename() != "race.json") fs::remove(entry.path());
  }
  EXPECT_EQ(Race({"--phases", "read"}).exit_code, 1);
  EXPECT_FALSE(Report()["ok"]);
  EXPECT_EQ(Race({"--phases", "range"}).exit_code, 1);
}

TEST_F(RaceProgramTest, ForeignValuesFailTheRace) {
  ASSERT_EQ(Race({"--num", "200", "--phases", "write", "--keys", "sequential"}).exit_code, 0);
  // Expects the same keys, but values of another run.
  nlohmann::json note = LoadJson(dir_ + "/race.json");
  note["seed"] = 2;
  std::ofstream(dir_ + "/race.json") << note;
  const std::vector<std::string> flags = {"--keys", "sequential", "--seed", "2", "--phases"};
  for (const std::string phase : {"read", "range"}) {
    std::vector<std::string> with_phase = flags;
    with_phase.push_back(phase);
    const ChildResult run = Race(with_phase);
    EXPECT_EQ(run.exit_code, 1) << phase;
    EXPECT_NE(run.output.find("wrong bytes"), std::string::npos) << run.output;
  }
}

TEST_F(RaceProgramTest, SavesTheTableThatItPrints) {
  const std::string path = temp_.Join("new/table.txt");
  const ChildResult run = Race({"--num", "50", "--phases", "write", "--table", path});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const std::string table = LoadText(path).value_or("");
  EXPECT_NE(table.find("write"), std::string::npos) << table;
  EXPECT_NE(run.output.find(table), std::string::npos) << run.output;
  EXPECT_TRUE(run.output.ends_with("table saved in " + path + "\nfigures saved in " +
                                   temp_.Join("race.json") + "\n"))
      << run.output;
}

}  // namespace
}  // namespace engine_race::harness
