// Every step finds all records by gets, batches and seeks, and has the settings of its name.
#include "harness/experiments/l1/tables.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using lab::Encoding;
using lab::Protection;
using lab::Reach;
using lab::TableOptions;

class L1TablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    records_.table_count = 3;
    records_.records_per_table = 3000;
    ASSERT_TRUE(L1Files::Open(temp_.path(), records_, &files_).ok());
  }

  Status OpenStep(const L1Step& step, std::unique_ptr<L1Tables>* tables) {
    ENGINE_RACE_RETURN_IF_ERROR(files_->Build(step.encoding));
    return L1Tables::Open(*files_, step, tables);
  }

  Status Run(const L1Lookups& lookups, const MakeL1Answer& answer) {
    TimedPoint run;
    return RunLookups(lookups, {2, 0.002, 0, 0}, answer, &run);
  }

  test::TempDir temp_{test::FastParent()};
  L1Records records_;
  std::unique_ptr<L1Files> files_;
};

TEST_F(L1TablesTest, EveryStepFindsTheSame) {
  const L1Lookups uniform(records_, {4096});
  const L1Lookups groups(records_, {4096, 64});
  const L1Lookups seeks(records_, {1024, 1, 0, 10});
  for (const L1Step& step : L1Steps()) {
    if (!step.available()) continue;
    std::unique_ptr<L1Tables> tables;
    const Status opened = OpenStep(step, &tables);
    ASSERT_TRUE(opened.ok()) << step.name << ": " << opened.ToString();
    EXPECT_GT(tables->memory_bytes(), records_.byte_count()) << step.name;
    EXPECT_LT(tables->memory_bytes(), L1Files::BytesOf(records_)) << step.name;
    for (const Status& status :
         {Run(uniform, tables->Gets()), Run(groups, tables->MultiGets(64)),
          Run(groups, tables->MultiGets(16)), Run(seeks, tables->Seeks(10))}) {
      EXPECT_TRUE(status.ok()) << step.name << ": " << status.ToString();
    }
    // Sums of eleven records are not those of ten.
    EXPECT_EQ(Run(seeks, tables->Seeks(9)).code(), Code::kCorruption) << step.name;
  }
}

TEST_F(L1TablesTest, EverythingIsInMemoryOnceATableIsOpen) {
  for (const char* name : {kBaselineStep, kSwizzledStep}) {
    std::unique_ptr<L1Tables> tables;
    ASSERT_TRUE(OpenStep(L1StepNamed(name), &tables).ok());
    const uint64_t bytes = tables->memory_bytes();
    const L1Lookups uniform(records_, {uint64_t{1} << 16});
    ASSERT_TRUE(Run(uniform, tables->Gets()).ok());
    EXPECT_EQ(tables->memory_bytes(), bytes) << name;
  }
}

TEST_F(L1TablesTest, FilesAreBuiltOnceForEachShape) {
  ASSERT_TRUE(files_->Build(Encoding::kTree).ok());
  const std::string path = temp_.Join(files_->NameOf(Encoding::kTree, 1));
  const auto built = std::filesystem::last_write_time(path);
  ASSERT_TRUE(files_->Build(Encoding::kTree).ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), built);
  std::filesystem::remove(path);
  ASSERT_TRUE(files_->Build(Encoding::kTree).ok());
  EXPECT_GT(std::filesystem::file_size(path), 0u);

  std::set<std::string> names;
  for (L1Records other : {records_, records_, records_, records_, records_}) {
    switch (names.size()) {
      case 1:
        other.seed = 2;
        break;
      case 2:
        other.records_per_table = 10;
        break;
      case 3:
        other.shape.key_bytes = 8;
        break;
      case 4:
        other.shape.payload_bytes = 9;
        break;
      default:
        break;
    }
    std::unique_ptr<L1Files> files;
    ASSERT_TRUE(L1Files::Open(temp_.path(), other, &files).ok());
    names.insert(files->NameOf(Encoding::kTree, 1));
  }
  EXPECT_EQ(names.size(), 5u);

  files_->Remove(Encoding::kTree);
  EXPECT_TRUE(std::filesystem::is_empty(temp_.path()));
}

TEST_F(L1TablesTest, OtherRecordsFailTheRun) {
  L1Records others = records_;
  others.seed = 99;
  std::unique_ptr<L1Tables> tables;
  ASSERT_TRUE(OpenStep(L1StepNamed(kSwizzledStep), &tables).ok());
  EXPECT_EQ(Run(L1Lookups(others, {1024}), tables->Gets()).code(), Code::kNotFound);
}

TEST(L1StepsTest, EachRungAddsOneThing) {
  const TableOptions baseline = L1StepNamed(kBaselineStep).options();
  EXPECT_EQ(L1StepNamed(kBaselineStep).encoding, Encoding::kRestart);
  EXPECT_EQ(L1StepNamed("square").encoding, Encoding::kSquare);
  for (const Reach reach : {baseline.extents, baseline.indexes, baseline.records}) {
    EXPECT_EQ(reach, Reach::kCache);
  }
  const auto ladder = L1Steps(L1Use::kLadder);
  ASSERT_EQ(ladder.size(), 6u);
  int last = -1;
  for (size_t i = 2; i < ladder.size(); ++i) {
    const L1Step& step = ladder[i];
    EXPECT_EQ(step.encoding, Encoding::kTree) << step.name;
    EXPECT_EQ(step.options().search, nullptr) << step.name;
    EXPECT_EQ(step.options().protection, Protection::kEpoch) << step.name;
    const TableOptions options = step.options();
    int pointers = 0;
    for (const Reach reach : {options.extents, options.indexes, options.records}) {
      pointers += reach == Reach::kPointer ? 1 : 0;
    }
    EXPECT_EQ(pointers, last + 1) << step.name;
    last = pointers;
  }
  EXPECT_EQ(last, 3);
  EXPECT_EQ(L1StepNamed(kCountedStep).options().protection, Protection::kCount);
}

TEST(L1StepsTest, NamesAreDistinctAndEverySearchIsThereTwice) {
  std::set<std::string> names;
  std::map<L1Reach, std::set<lab::NodeSearch>> searches;
  for (const L1Step& step : L1Steps()) {
    names.insert(step.name);
    if (step.search) searches[step.reach].insert(*step.search);
  }
  EXPECT_EQ(names.size(), L1Steps().size());
  EXPECT_EQ(searches.size(), 2u);
  EXPECT_EQ(searches[L1Reach::kNone].size(), 4u);
  EXPECT_EQ(searches[L1Reach::kAll].size(), 4u);
}

TEST_F(L1TablesTest, RoundsNoteEachContenderAndTheRatiosOfTheirFastest) {
  const L1Lookups lookups(records_, {1024});
  std::vector<std::string> order;
  const auto contender = [&](const std::string& name) {
    return L1Contender{name, &lookups, 1, [&order, name]() -> L1Answer {
                         order.push_back(name);
                         return [](const L1Chunk& chunk, uint64_t* sum) {
                           *sum = chunk.sum;
                           return Status::Ok();
                         };
                       }};
  };
  ClaimRounds rounds({});
  ASSERT_TRUE(RunL1Rounds({2, 0, 0, 1}, {contender("a"), contender("b"), contender("c")},
                          {{"gain", {"a", "b", "not here"}, {"c"}}, {"none", {"not here"}, {"c"}}},
                          &rounds)
                  .ok());
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c", "c", "b", "a"}));
  ASSERT_TRUE(rounds.has("gain"));
  EXPECT_FALSE(rounds.has("none"));
  for (size_t i = 0; i < 2; ++i) {
    const double fastest =
        std::max(rounds.rounds(L1Figure("a"))[i], rounds.rounds(L1Figure("b"))[i]);
    EXPECT_DOUBLE_EQ(rounds.rounds("gain")[i], fastest / rounds.rounds(L1Figure("c"))[i]);
  }
}

}  // namespace
}  // namespace engine_race::harness
