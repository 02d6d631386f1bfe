// The whole of `bin/lab l1` once, tiny, and its parsers of other programs' output.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/experiments/l1/race.h"
#include "harness/system/child_process.h"
#include "test/harness/program_fixture.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;

TEST(L1RaceChildTest, CountsOfCachegrindAreAddedUp) {
  L1Counts counts;
  ASSERT_TRUE(ParseCachegrind("desc: D1 cache: 49152 B\n"
                              "events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw \n"
                              "fl=???\nfn=main\n0 1000 1 1 1 1 1 1 1 1\n"
                              "summary: 5000000 12 11 70 300 60 50 40 30 \n",
                              &counts)
                  .ok());
  EXPECT_EQ(counts.instructions, 5000000);
  EXPECT_EQ(counts.l1d_misses, 340);
  EXPECT_FALSE(ParseCachegrind("", &counts).ok());
  EXPECT_FALSE(ParseCachegrind("events: Ir\nsummary: 5\n", &counts).ok());
  EXPECT_FALSE(ParseCachegrind("events: Ir D1mr D1mw\n", &counts).ok());
}

TEST(L1RaceChildTest, TheCachesShareIsThatOfItsFunctionsAndLocks) {
  double share = 0;
  ASSERT_TRUE(ParseCacheShare("# Overhead  Symbol\n"
                              "#\n"
                              "    30.00%  [.] lab::BlockCache::Lookup(unsigned long)\n"
                              "    20.00%  [.] lab::RestartBlock::Find(char const*) const\n"
                              "    10.00%  [.] pthread_mutex_lock@@GLIBC_2.2.5\n"
                              "    20.00%  [k] 0xffffffff81000000\n"
                              "\n",
                              &share)
                  .ok());
  EXPECT_DOUBLE_EQ(share, 0.5);
  EXPECT_EQ(ParseCacheShare("# nothing\n", &share).code(), Code::kNotSupported);
}

TEST(L1RaceCommandTest, AsManyRecordsAsFit) {
  const L1Records records;
  constexpr uint64_t kMuch = uint64_t{1} << 50;
  EXPECT_EQ(FittingL1Records(records, kMuch, kMuch), 20000000u);
  for (const auto& [memory_bytes, disk_bytes] :
       {std::pair(uint64_t{1} << 32, kMuch), std::pair(kMuch, uint64_t{1} << 32)}) {
    L1Records fitting = records;
    fitting.records_per_table = FittingL1Records(records, memory_bytes, disk_bytes);
    EXPECT_GT(fitting.records_per_table, 100000u);
    EXPECT_LE(L1StepBytes(fitting), memory_bytes / 2 + memory_bytes / 100);
    EXPECT_LE(L1Files::BytesOf(fitting), disk_bytes / 2 + disk_bytes / 100);
  }
  EXPECT_EQ(FittingL1Records(records, 0, kMuch), 0u);
}

class L1ProgramTest : public LabFixture {
 protected:
  L1ProgramTest() : LabFixture("l1") {}
};

TEST_F(L1ProgramTest, MeasuresEveryStepWithEveryThreadCount) {
  const ChildResult run = Run({"--smoke", "--sweep", "--no-children", "--threads", "1,3"});
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const nlohmann::json report = Report();
  ASSERT_TRUE(report.is_object());
  EXPECT_TRUE(report["ok"]);
  EXPECT_TRUE(report["machine"].contains("cpu"));
  EXPECT_EQ(report["config"]["threads"], (std::vector<int>{1, 3}));
  std::map<int, nlohmann::json> tables;
  for (const auto& table : report["experiments"]) tables[table["number"]] = table;
  ASSERT_EQ(tables.size(), 5u);
  for (const auto& [number, table] : tables) {
    ASSERT_FALSE(table["rows"].empty()) << number;
    // The rows have the figures that the plots draw.
    for (const auto& row : table["rows"]) {
      if (row.contains("unavailable")) continue;
      EXPECT_TRUE(row.contains(std::string(table["plot"]["x"]))) << row;
      EXPECT_TRUE(row.contains(std::string(table["plot"]["y"][0]))) << row;
    }
  }
  std::map<std::string, std::set<int>> steps;
  for (const auto& row : tables[1]["rows"]) {
    steps[row["step"]].insert(int{row["threads"]});
    if (row["step"] == "baseline") {
      EXPECT_EQ(row["over_baseline"], 1.0);
    }
  }
  for (const char* step : {"baseline", "square", "tree", "extents by pointer", "indexes by pointer",
                           "swizzled", "swizzled, batched", "sharing nothing"}) {
    EXPECT_EQ(steps[step], (std::set<int>{1, 3})) << step;
  }
  std::map<std::string, std::set<int>> lookups;
  for (const auto& row : tables[5]["rows"]) lookups[row["step"]].insert(int{row["threads"]});
  for (const char* step : {"blocks through the cache", "blocks by pointer, binary search", "paged",
                           "paged, batched", "flat", "flat arrays, batched"}) {
    EXPECT_EQ(lookups[step], (std::set<int>{1, 3})) << step;
  }
  EXPECT_EQ(tables[2]["rows"].size(), 6u);
  EXPECT_EQ(tables[4]["rows"].size(), 4u);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(L1ProgramTest, RefusesWhatMakesNoSense) {
  EXPECT_NE(Run({"--key-bytes", "12"}).exit_code, 0);
  EXPECT_NE(Run({"--payload-bytes", "4"}).exit_code, 0);
  EXPECT_NE(Run({"--threads", "0"}).exit_code, 0);
  EXPECT_EQ(Run({"--records", "5"}).exit_code, 2);
  // No machine has room for this many records.
  EXPECT_EQ(Run({"--records", "1000000000000000"}).exit_code, 2);
  EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(L1ProgramTest, AnInterruptLeavesNothingBehind) {
  const ChildResult run =
      RunChild({"timeout", "--preserve-status", "-s", "INT", "2", program_, "l1", "--dir", dir_,
                "--records", "100000", "--seconds", "1", "--rounds", "1000"});
  EXPECT_EQ(run.exit_code, 130) << run.output;
  EXPECT_TRUE(fs::is_empty(dir_));
}

}  // namespace
}  // namespace engine_race::harness
