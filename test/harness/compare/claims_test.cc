// Which rounds make a claim, and which only a figure.
#include "harness/compare/comparison.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace engine_race::harness {
namespace {

CompareAnswer AnswerOf(double rate) {
  CompareAnswer answer;
  answer.run = {{"operations_per_s", rate},
                {"page_cache_drop", "drop_caches"},
                {"program_locked", true},
                {"write_amplification", 1.0}};
  return answer;
}

class CompareClaimsTest : public ::testing::Test {
 protected:
  CompareClaimsTest() {
    Set("engine_race", 600);
    Set("rocksdb", 100);
    Set("lmdb", 200);
  }

  // The same rate in every phase; three openings.
  void Set(const std::string& store, double rate) {
    for (const char* phase : {kWritePhase, kReadPhase, kRangePhase, kOpenAfterLoadPhase}) {
      answers_[store][phase] = {AnswerOf(rate)};
    }
    answers_[store][kOpenPhase] = {AnswerOf(rate / 2), AnswerOf(rate), AnswerOf(rate * 9)};
  }
  void Note() { claims_.NoteRound(answers_); }
  bool Claims(const char* name) const { return claims_.rounds().Claims().contains(name); }
  double Claim(const char* name) const { return claims_.rounds().Claims().at(name); }
  bool HasFigure(const char* name) const { return claims_.rounds().has(name); }

  CompareClaims claims_{{"engine_race", "rocksdb", "lmdb"}, {"rocksdb", "lmdb"}};
  RoundAnswers answers_;
};

TEST_F(CompareClaimsTest, RatiosAreOverTheBest) {
  Note();
  EXPECT_EQ(Claim("write_vs_best_peer"), 3);
  EXPECT_EQ(Claim("read_vs_best_peer"), 3);
  EXPECT_EQ(Claim("range_vs_best_peer"), 3);
  EXPECT_EQ(Claim("open_vs_rocksdb"), 6);
  EXPECT_TRUE(HasFigure("open_after_load_vs_rocksdb"));
  EXPECT_EQ(claims_.rounds().Median("open, lmdb, ms"), 5);
}

TEST_F(CompareClaimsTest, AFailedPeerMakesNoClaim) {
  answers_["lmdb"][kReadPhase].front().error = "crashed midway";
  answers_["lmdb"].erase(kRangePhase);
  Note();
  EXPECT_TRUE(Claims("write_vs_best_peer"));
  EXPECT_FALSE(Claims("read_vs_best_peer"));
  EXPECT_FALSE(Claims("range_vs_best_peer"));
  EXPECT_EQ(claims_.rounds().Median("read_vs_best_peer, without lmdb"), 6);
  EXPECT_TRUE(HasFigure("range_vs_best_peer, without lmdb"));
}

TEST_F(CompareClaimsTest, AnotherRoundMakesTheClaimAlone) {
  Note();
  Set("engine_race", 6000);
  answers_["rocksdb"][kReadPhase].front().error = "no answer";
  Note();
  EXPECT_EQ(claims_.rounds().rounds("read_vs_best_peer").size(), 1u);
  EXPECT_EQ(claims_.rounds().rounds("write_vs_best_peer").size(), 2u);
}

TEST_F(CompareClaimsTest, AFailedEngineMakesNoFigure) {
  answers_["engine_race"][kReadPhase].front().error = "wrong bytes";
  answers_["engine_race"][kOpenPhase][1].error = "no answer";
  Note();
  EXPECT_FALSE(Claims("read_vs_best_peer"));
  EXPECT_FALSE(Claims("open_vs_rocksdb"));
  EXPECT_FALSE(HasFigure("open, engine_race, ms"));
}

TEST_F(CompareClaimsTest, AMissingPeerMakesNoClaimOfTheBest) {
  CompareClaims claims({"engine_race", "rocksdb"}, {"rocksdb", "lmdb"});
  answers_.erase("lmdb");
  claims.NoteRound(answers_);
  EXPECT_FALSE(claims.rounds().Claims().contains("write_vs_best_peer"));
  EXPECT_TRUE(claims.rounds().has("write_vs_best_peer, without lmdb"));
  EXPECT_TRUE(claims.rounds().Claims().contains("open_vs_rocksdb"));
}

TEST_F(CompareClaimsTest, FewerRecordsAreNoReading) {
  for (const char* phase : {kWritePhase, kReadPhase, kRangePhase, kOpenPhase}) {
    for (CompareAnswer& answer : answers_["rocksdb"][phase]) answer.has_all_records = false;
  }
  Note();
  EXPECT_TRUE(Claims("write_vs_best_peer"));
  EXPECT_FALSE(Claims("read_vs_best_peer"));
  EXPECT_TRUE(HasFigure("read_vs_best_peer, without rocksdb"));
  EXPECT_FALSE(Claims("open_vs_rocksdb"));
}

TEST_F(CompareClaimsTest, AnEngineThatWasCutOffMakesNoClaim) {
  answers_["engine_race"][kWritePhase].front().has_all_records = false;
  Note();
  EXPECT_FALSE(HasFigure("write_vs_best_peer"));
  EXPECT_FALSE(Claims("write_amplification"));
  EXPECT_TRUE(Claims("read_vs_best_peer"));
}

TEST_F(CompareClaimsTest, RatiosWithoutTheCapThatIsWantedAreNoClaims) {
  claims_.LackCap();
  Note();
  EXPECT_FALSE(Claims("write_vs_best_peer"));
  EXPECT_FALSE(Claims("open_vs_rocksdb"));
  EXPECT_EQ(claims_.rounds().Median("write_vs_best_peer, without a cap"), 3);
  EXPECT_EQ(claims_.rounds().Median("open_vs_rocksdb, without a cap"), 6);
  EXPECT_TRUE(Claims("write_amplification"));
}

TEST_F(CompareClaimsTest, AnOpeningOfAProgramThatWasNotLockedIsNoClaim) {
  answers_["engine_race"][kOpenPhase][1].run["program_locked"] = false;
  Note();
  EXPECT_FALSE(Claims("open_vs_rocksdb"));
  EXPECT_TRUE(HasFigure("open_after_load_vs_rocksdb"));
}

TEST_F(CompareClaimsTest, AnOpeningThatMayBeWarmIsNoClaim) {
  answers_["rocksdb"][kOpenPhase][2].run["page_cache_drop"] = "fadvise";
  Note();
  EXPECT_FALSE(Claims("open_vs_rocksdb"));
  EXPECT_TRUE(HasFigure("open_vs_rocksdb, page cache perhaps warm"));
  EXPECT_TRUE(HasFigure("open_after_load_vs_rocksdb"));
}

TEST_F(CompareClaimsTest, SaysWhyAClaimHasNoValue) {
  const std::vector<std::string> all = {kWritePhase, kReadPhase, kRangePhase, kOpenPhase};
  const auto why = [&](const char* name) { return claims_.WhyUnmeasured(name, all, "no rights"); };
  EXPECT_EQ(why("read_vs_best_peer"), "no round has a full answer of every store that it is about");
  EXPECT_EQ(claims_.WhyUnmeasured("read_vs_best_peer", {kWritePhase}, ""),
            "the phase read was not chosen");
  EXPECT_EQ(claims_.WhyUnmeasured("open_vs_rocksdb", {kWritePhase}, ""),
            "the phase open was not chosen");
  answers_["engine_race"][kWritePhase].front().has_all_records = false;
  answers_["lmdb"].erase(kReadPhase);
  answers_["rocksdb"][kOpenPhase][2].run["page_cache_drop"] = "fadvise";
  Note();
  EXPECT_EQ(why("read_vs_best_peer"),
            "the rounds have only the figure \"read_vs_best_peer, without lmdb\"");
  EXPECT_EQ(why("open_vs_rocksdb"),
            "the rounds have only the figure \"open_vs_rocksdb, page cache perhaps warm\"");
  for (const char* name : {"write_vs_best_peer", "write_amplification"}) {
    EXPECT_NE(why(name).find("engine_race had fewer records in write"), std::string::npos);
  }
}

TEST_F(CompareClaimsTest, KnowsThePhaseOfEachOwnClaim) {
  const std::map<std::string, std::string> phases = {
      {"write_vs_best_peer", kWritePhase},  {"read_vs_best_peer", kReadPhase},
      {"range_vs_best_peer", kRangePhase},  {"open_vs_rocksdb", kOpenPhase},
      {"write_amplification", kWritePhase}, {"space_amplification_uniform", kWritePhase}};
  for (const std::string& name : claims_.Unmeasured()) {
    if (CompareClaims::IsOfAnotherProgram(name)) {
      EXPECT_FALSE(phases.contains(name)) << name;
      continue;
    }
    ASSERT_TRUE(phases.contains(name)) << name;
    EXPECT_EQ(claims_.WhyUnmeasured(name, {}, ""),
              "the phase " + phases.at(name) + " was not chosen");
  }
  EXPECT_EQ(claims_.Unmeasured().size(), phases.size() + 4);
}

TEST_F(CompareClaimsTest, SaysThatThereWasNoCap) {
  claims_.LackCap();
  Note();
  const std::string why = claims_.WhyUnmeasured("range_vs_best_peer", {kRangePhase}, "no rights");
  EXPECT_NE(why.find("no cap on memory: no rights"), std::string::npos) << why;
  EXPECT_NE(why.find("\"range_vs_best_peer, without a cap\""), std::string::npos) << why;
}

TEST_F(CompareClaimsTest, TakesOverItsOwnClaimsAlone) {
  EXPECT_TRUE(claims_.TakeOver("c_api_cost", 0.01));
  EXPECT_FALSE(claims_.TakeOver("c_api_price", 0.01));
  EXPECT_EQ(Claim("c_api_cost"), 0.01);
}

// The tables of a comparison.

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
