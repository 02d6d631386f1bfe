// The tables of a comparison.
#include "harness/compare/claims.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace engine_race::harness {
namespace {

nlohmann::json RunOf(const char* store, const char* phase, double rate, bool finished = true) {
  return {{"store", store}, {"phase", phase},       {"operations_per_s", rate},
          {"seconds", 1.0}, {"finished", finished}, {"write_amplification", nullptr}};
}

TEST(CompareReportTest, ShowsMediansAndWhoDidNotFinish) {
  const nlohmann::json runs = {
      RunOf("engine_race", "write", 100), RunOf("engine_race", "write", 300),
      RunOf("engine_race", "write", 200), RunOf("lmdb", "write", 50, false)};
  const std::string text = PhaseTables(runs);
  EXPECT_NE(text.find("200"), std::string::npos) << text;
  const size_t lmdb = text.find("lmdb");
  ASSERT_NE(lmdb, std::string::npos);
  EXPECT_NE(text.find("unfinished", lmdb), std::string::npos) << text;
  EXPECT_EQ(text.rfind("unfinished", lmdb), std::string::npos) << text;
}

TEST(CompareReportTest, ShowsWhoHadFewerRecords) {
  nlohmann::json fewer = RunOf("lmdb", "read", 50);
  fewer["has_all_records"] = false;
  nlohmann::json all = RunOf("rocksdb", "read", 50);
  all["has_all_records"] = true;
  const std::string text = PhaseTables({fewer, all});
  const size_t note = text.find("fewer records");
  ASSERT_NE(note, std::string::npos) << text;
  EXPECT_LT(note, text.find("rocksdb")) << text;
  EXPECT_EQ(text.find("fewer records", note + 1), std::string::npos) << text;
}

TEST(CompareReportTest, ShowsLossesBesideWins) {
  const nlohmann::json runs = {RunOf("engine_race", "write", 200), RunOf("lmdb", "write", 50),
                               RunOf("rocksdb", "write", 100), RunOf("engine_race", "open", 1),
                               RunOf("lmdb", "open", 4)};
  const std::string text = WinsTable(runs, nlohmann::json::array());
  EXPECT_NE(text.find("rocksdb   2.00   win"), std::string::npos) << text;
  EXPECT_NE(text.find("lmdb   0.25  LOSS"), std::string::npos) << text;
}

TEST(CompareReportTest, AStoreWithFewerRecordsIsNeverTheBest) {
  nlohmann::json fewer = RunOf("lmdb", "read", 1000);
  fewer["has_all_records"] = false;
  const nlohmann::json runs = {RunOf("engine_race", "read", 200), fewer,
                               RunOf("rocksdb", "read", 100)};
  const std::string text = WinsTable(runs, nlohmann::json::array());
  EXPECT_NE(text.find("rocksdb   2.00  win"), std::string::npos) << text;
  EXPECT_NE(text.find("lmdb: fewer records"), std::string::npos) << text;

  nlohmann::json own = RunOf("engine_race", "read", 200);
  own["has_all_records"] = false;
  const std::string no_win =
      WinsTable({own, RunOf("rocksdb", "read", 100)}, nlohmann::json::array());
  EXPECT_EQ(no_win.find("win"), std::string::npos) << no_win;
  EXPECT_NE(no_win.find("engine_race: fewer records"), std::string::npos) << no_win;
}

TEST(CompareReportTest, NamesWhoFailed) {
  const nlohmann::json runs = {RunOf("engine_race", "read", 200), RunOf("rocksdb", "read", 100)};
  const nlohmann::json failed = {{{"store", "lmdb"}, {"phase", "write"}, {"error", "no room"}},
                                 {{"store", "lmdb"}, {"phase", "write"}, {"error", "no room"}}};
  const std::string text = WinsTable(runs, failed);
  const size_t note = text.find("lmdb: failed");
  ASSERT_NE(note, std::string::npos) << text;
  EXPECT_EQ(text.find("lmdb", note + 1), std::string::npos) << text;
}

TEST(CompareReportTest, ShowsOpeningAndClosing) {
  nlohmann::json run = RunOf("lmdb", "read", 50);
  run["open_s"] = 12.34;
  run["close_s"] = 56.78;
  const std::string text = PhaseTables(nlohmann::json::array({run}));
  EXPECT_NE(text.find("12.34"), std::string::npos) << text;
  EXPECT_NE(text.find("56.78"), std::string::npos) << text;
}

TEST(CompareReportTest, ALoneStoreWinsNothing) {
  const nlohmann::json none = nlohmann::json::array();
  EXPECT_EQ(WinsTable(nlohmann::json::array({RunOf("engine_race", "write", 200)}), none), "");
  EXPECT_EQ(WinsTable(nlohmann::json::array({RunOf("lmdb", "write", 200)}), none), "");
  EXPECT_EQ(PhaseTables(nlohmann::json::array()), "");
}

}  // namespace
}  // namespace engine_race::harness
