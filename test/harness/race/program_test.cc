// The race program as a whole, small, without the device's own figures.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/system/child_process.h"
#include "test/test_util.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

class RaceProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin_dir = std::getenv("ENGINE_BIN_DIR");
    if (bin_dir == nullptr) GTEST_SKIP() << "ENGINE_BIN_DIR is not set";
    program_ = std::string(bin_dir) + "/race";
    dir_ = temp_.Join("store");
  }

  ChildResult Race(std::vector<std::string> flags) const {
    std::vector<std::string> args = {program_,    "--no-fio", "--dir",  dir_,
                                     "--threads", "3",        "--json", temp_.Join("race.json")};
    args.insert(args.end(), flags.begin(), flags.end());
    return RunChild(args);
  }

  nlohmann::json Report() const {
    std::ifstream file(temp_.Join("race.json"));
    return nlohmann::json::parse(file, nullptr, false);
  }

  engine_race::test::TempDir temp_;
  std::string program_;
  std::string dir_;
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
  // An empty store in the place of the one that was written.
  for (const auto& entry : fs::directory_iterator(dir_)) {
    if (entry.path().filename() != "race.json") fs::remove(entry.path());
  }
  EXPECT_EQ(Race({"--phases", "read"}).exit_code, 1);
  EXPECT_FALSE(Report()["ok"]);
  EXPECT_EQ(Race({"--phases", "range"}).exit_code, 1);
}

TEST_F(RaceProgramTest, ForeignValuesFailTheRace) {
  ASSERT_EQ(Race({"--num", "200", "--phases", "write", "--keys", "sequential"}).exit_code, 0);
  // The same keys, but the values of another run.
  std::ifstream file(dir_ + "/race.json");
  nlohmann::json note = nlohmann::json::parse(file);
  note["seed"] = 2;
  file.close();
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

TEST_F(RaceProgramTest, VerifiesAndDumpsTheStoreThatItLeaves) {
  ASSERT_EQ(Race({"--num", "200", "--phases", "write"}).exit_code, 0);
  const ChildResult dump = RunChild({program_, "dump", dir_, "--buckets"});
  EXPECT_EQ(dump.exit_code, 0);
  EXPECT_NE(dump.output.find("records           600,"), std::string::npos) << dump.output;
  const ChildResult sound = RunChild({program_, "verify", dir_});
  EXPECT_EQ(sound.exit_code, 0) << sound.output;
  EXPECT_NE(sound.output.find("600 records verified"), std::string::npos) << sound.output;

  // All that is staged of the values: every record is bad then.
  {
    std::fstream staged(dir_ + "/staging_values", std::ios::in | std::ios::out | std::ios::binary);
    const std::string junk(64 << 20, 'x');
    staged.write(junk.data(), static_cast<std::streamsize>(junk.size()));
  }
  const ChildResult bad = RunChild({program_, "verify", dir_});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.output.find("bad: staging_values, bucket "), std::string::npos) << bad.output;
  EXPECT_EQ(RunChild({program_, "verify", temp_.Join("nothing")}).exit_code, 2);
  EXPECT_EQ(RunChild({program_, "dump", temp_.Join("nothing")}).exit_code, 2);
}

}  // namespace
}  // namespace harness
