// Which rounds make a claim, and which only a figure.
#include "harness/compare/claims.h"

#include <gtest/gtest.h>

#include <map>
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

}  // namespace
}  // namespace engine_race::harness
