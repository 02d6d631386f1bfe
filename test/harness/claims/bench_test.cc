// The frame of a bench, over one whose parts do what the tests say.
#include "harness/claims/bench.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/system/exit_codes.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::FastParent;
using test::TempDir;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStdout;
using Names = std::vector<std::string>;

class FakeBench final : public Bench {
 public:
  FakeBench() : Bench("fake", "nothing") {}

  Count32 round_count{this, "rounds", 3, 1, "--rounds"};
  Count bytes{this, "store_bytes", 100, 10, "--bytes"};
  Real seconds{this, "seconds", 0.5};
  Path path{this, "", "unused", kSame, "--path"};
  // What the part of this name returns, and whether it notes its figures.
  std::map<std::string, Status> failures;
  Names measured;
  // What was in the directory when a part began.
  Names found;
  std::string why_not;
  std::string why_not_three = "the weather";
  uint64_t needed_bytes = 0;
  nlohmann::json more = nlohmann::json::object();

 private:
  std::vector<BenchPart> Parts() override {
    const auto part = [this](const char* name, const Names& claims) {
      return [this, name, claims] {
        measured.emplace_back(name);
        for (const auto& entry : std::filesystem::directory_iterator(dir())) {
          found.push_back(entry.path().filename());
        }
        std::filesystem::create_directory(dir() + "/" + name);
        more_json_ = more;
        if (failures.contains(name)) return failures.at(name);
        for (const std::string& claim : claims) rounds_.Note(claim, 1.5);
        return Status::Ok();
      };
    };
    return {{"one",
             {{"first", ">= 1", "what it is"}, {"second", ">= 2"}},
             part("one", {"first", "second"})},
            {"two", {{"third", ""}}, part("two", {"third"}), needed_bytes},
            {"three", {{"rare", "= 1"}}, part("three", {"rare"}), {0, false, why_not_three}}};
  }
  std::string WhyNot() override { return why_not; }
};

class BenchTest : public ::testing::Test {
 protected:
  bool Measure(const Names& only, bool is_smoke = false) {
    EXPECT_EQ(bench_.Refusal({dir_.path(), dir_.path(), "", only, is_smoke}), "");
    return bench_.Measure();
  }

  const TempDir dir_{FastParent()};
  FakeBench bench_;
};

TEST_F(BenchTest, WithoutNamesItMeasuresWhatItCan) {
  EXPECT_TRUE(Measure({}));
  EXPECT_EQ(bench_.measured, (Names{"one", "two"}));
}

TEST_F(BenchTest, WhatCannotBeMeasuredIsAnErrorIfItWasAskedFor) {
  EXPECT_FALSE(Measure({"three"}));
  EXPECT_TRUE(bench_.measured.empty());
  EXPECT_NE(bench_.errors().front().find("the weather"), std::string::npos);
}

TEST_F(BenchTest, AClaimOrAPartIsAskedForByName) {
  bench_.why_not_three.clear();
  EXPECT_TRUE(Measure({"second", "three"}));
  EXPECT_EQ(bench_.measured, (Names{"one", "three"}));
  EXPECT_NE(bench_.Refusal({dir_.path(), dir_.path(), "", {"fourth"}}), "");
}

TEST_F(BenchTest, AFailedPartKeepsNoOtherFromBeingMeasured) {
  bench_.failures["one"] = Status::IOError("a bad block");
  EXPECT_FALSE(Measure({}));
  EXPECT_EQ(bench_.measured, (Names{"one", "two"}));
  EXPECT_EQ(bench_.errors().size(), 3u);
  EXPECT_TRUE(bench_.errors().front().starts_with("one: ")) << bench_.errors().front();
  EXPECT_TRUE(bench_.rounds().has("third"));
}

TEST_F(BenchTest, AClaimThatWasNotMeasuredIsAnErrorUnlessTheRunIsASmokeRun) {
  bench_.failures["two"] = Status::Ok();
  EXPECT_FALSE(Measure({"third"}));
  EXPECT_EQ(bench_.errors(), (Names{"not measured: third"}));
  FakeBench tiny;
  tiny.failures["two"] = Status::Ok();
  EXPECT_EQ(tiny.Refusal({dir_.path(), dir_.path(), "", {"third"}, true}), "");
  EXPECT_TRUE(tiny.Measure());
}

TEST_F(BenchTest, ADiskWithoutSpaceForTheLargestWantedPartIsRefused) {
  bench_.needed_bytes = ~uint64_t{0};
  EXPECT_NE(bench_.Refusal({dir_.path(), dir_.path()}), "");
  EXPECT_TRUE(Measure({"one"}));
}

TEST_F(BenchTest, TheJsonHasClaimsSettingsAndErrors) {
  bench_.failures["two"] = Status::IOError("a bad block");
  EXPECT_FALSE(Measure({}));
  const nlohmann::json json = bench_.ToJson();
  EXPECT_EQ(json.at("claims").size(), 2u);
  EXPECT_EQ(json.at("claims").at("first"), 1.5);
  EXPECT_EQ(json.at("what").size(), 1u);
  EXPECT_EQ(
      json.at("config"),
      (nlohmann::json{{"rounds", 3}, {"store_bytes", 100}, {"seconds", 0.5}, {"smoke", false}}));
  EXPECT_EQ(json.at("errors").size(), 2u);
  EXPECT_TRUE(json.at("machine").is_object());
}

TEST_F(BenchTest, APartFindsNothingOfTheOneBefore) {
  EXPECT_TRUE(Measure({}));
  EXPECT_EQ(bench_.measured.size(), 2u);
  EXPECT_EQ(bench_.found, Names{});
  EXPECT_FALSE(std::filesystem::exists(bench_.dir()));
}

TEST_F(BenchTest, WhatAPartAddsIsMergedIntoTheJson) {
  bench_.more = {{"config", {{"loop", "bare"}}}, {"phases", nullptr}};
  EXPECT_TRUE(Measure({"one"}));
  const nlohmann::json json = bench_.ToJson();
  EXPECT_EQ(json.at("config").at("loop"), "bare");
  EXPECT_EQ(json.at("config").at("rounds"), 3);
  EXPECT_TRUE(json.at("phases").is_null());
}

TEST_F(BenchTest, ItsDirectoriesGoWithIt) {
  {
    FakeBench bench;
    EXPECT_EQ(bench.Refusal({dir_.path(), dir_.path()}), "");
    EXPECT_TRUE(bench.Measure());
    EXPECT_FALSE(std::filesystem::is_empty(dir_.path()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(BenchTest, ARefusedRunMeasuresNothing) {
  bench_.why_not = "too little memory";
  CaptureStdout();
  EXPECT_EQ(bench_.Run({dir_.path(), dir_.path()}), kExitRefused);
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_TRUE(bench_.measured.empty());
  EXPECT_EQ(FakeBench().Run({dir_.path() + "/missing", dir_.path()}), kExitRefused);
}

TEST_F(BenchTest, ARunPrintsEachClaimBesideItsAimAndSavesAll) {
  const std::string path = dir_.path() + "/figures.json";
  CaptureStdout();
  EXPECT_EQ(bench_.Run({dir_.path(), dir_.path(), path}), kExitDone);
  const std::string printed = GetCapturedStdout();
  EXPECT_NE(printed.find(">= 2"), std::string::npos) << printed;
  EXPECT_NE(printed.find("not measured"), std::string::npos) << printed;
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(SettingTest, ANumberIsSetWhateverItsType) {
  FakeBench bench;
  for (const Setting& setting : bench.settings()) setting.Set(7);
  EXPECT_EQ(bench.round_count(), 7u);
  EXPECT_EQ(bench.bytes(), 7u);
  EXPECT_EQ(bench.seconds(), 7);
  EXPECT_EQ(bench.path(), "unused");
}

}  // namespace
}  // namespace engine_race::harness
