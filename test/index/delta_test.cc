#include "engine_race/index/delta.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace engine_race {
namespace {

LiveVersions LiveOf(const std::vector<uint64_t>& versions) {
  return LiveVersions(std::make_shared<const std::vector<uint64_t>>(versions));
}

class DeltaTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Delta::Create(8, &delta_).ok()); }

  void Put(uint64_t key, uint32_t slot, uint64_t version, bool watched) {
    delta_.Put(key, ValueRef(slot, 0, false), version, watched);
  }
  // The slot that a view of `version` sees; 0 for none.
  uint32_t SlotAt(uint64_t key, uint64_t version) const {
    const RefWord* const word = delta_.Locate(key, version);
    return word == nullptr ? 0 : word->Load().slot();
  }

  Delta delta_;
};

TEST_F(DeltaTest, KeepsKeysInOrder) {
  for (const uint64_t key : {5, 1, 9, 3}) Put(key, static_cast<uint32_t>(key), 1, false);
  ASSERT_EQ(delta_.count(), 4u);
  for (uint32_t i = 1; i < 4; ++i) EXPECT_LT(delta_.keys()[i - 1], delta_.keys()[i]);
  EXPECT_EQ(delta_.Rank(4), 2u);
  EXPECT_EQ(delta_.Locate(4), nullptr);
  EXPECT_EQ(delta_.Locate(9)->Load().slot(), 9u);
}

TEST_F(DeltaTest, ARecordThatNoViewWatchesIsWrittenOver) {
  Put(5, 1, 1, false);
  Put(5, 2, 2, false);
  EXPECT_EQ(delta_.count(), 1u);
  EXPECT_EQ(delta_.superseded_count(), 0u);
  EXPECT_EQ(SlotAt(5, 2), 2u);
  EXPECT_EQ(SlotAt(5, 1), 0u);
}

TEST_F(DeltaTest, KeepsWhatViewsMaySee) {
  Put(5, 1, 10, true);
  Put(5, 2, 10, true);
  EXPECT_EQ(delta_.count(), 1U) << "nobody can tell these apart";
  Put(5, 3, 12, true);
  Put(5, 4, 15, true);
  Put(4, 5, 15, true);
  Put(6, 6, 16, true);
  EXPECT_EQ(delta_.count(), 5U);
  EXPECT_EQ(delta_.superseded_count(), 2U);
  for (const auto& [version, slot] : std::vector<std::pair<uint64_t, uint32_t>>{
           {9, 0}, {10, 2}, {11, 2}, {12, 3}, {14, 3}, {15, 4}, {kLatestVersion, 4}}) {
    EXPECT_EQ(SlotAt(5, version), slot) << version;
  }
  Put(5, 7, 20, false);
  EXPECT_EQ(delta_.count(), 5U) << "in place when nobody looks";
  delta_.DropUnseen(LiveOf({13}));
  EXPECT_EQ(delta_.count(), 4U);
  EXPECT_EQ(delta_.superseded_count(), 1U);
  EXPECT_EQ(SlotAt(5, 13), 3U);
  EXPECT_EQ(SlotAt(5, kLatestVersion), 7U);
  EXPECT_EQ(SlotAt(4, kLatestVersion), 5U);
  delta_.DropUnseen(LiveOf({}));
  EXPECT_EQ(delta_.count(), 3U);
  EXPECT_EQ(delta_.superseded_count(), 0U);
}

TEST_F(DeltaTest, ACopyAndAMovedOneHoldTheSame) {
  Put(5, 1, 1, true);
  Put(5, 2, 2, true);
  Delta larger;
  ASSERT_TRUE(Delta::Create(16, &larger).ok());
  larger.CopyFrom(delta_);
  const Delta moved = std::move(larger);
  EXPECT_EQ(moved.count(), 2u);
  EXPECT_EQ(moved.superseded_count(), 1u);
  EXPECT_EQ(moved.capacity(), 16u);
  EXPECT_EQ(moved.Locate(5, 1)->Load().slot(), 1u);
  EXPECT_EQ(larger.count(), 0u);  // NOLINT(bugprone-use-after-move): it says that it is empty
  EXPECT_EQ(larger.capacity(), 0u);
}

}  // namespace
}  // namespace engine_race
