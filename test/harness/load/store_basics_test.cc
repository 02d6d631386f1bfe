#include "harness/load/store_basics.h"

#include <gtest/gtest.h>

namespace harness {
namespace {

using engine_race::NumaMode;

TEST(StoreBasicsTest, RaceBytesCountWhatThePhasesWrite) {
  EXPECT_EQ(RaceBytes(1000, false, false), 0u);
  EXPECT_EQ(RaceBytes(1000, true, false), StoreBytes(1000));
  EXPECT_EQ(RaceBytes(1000, false, true), 1000u * 4096);
  EXPECT_EQ(RaceBytes(1000, true, true), StoreBytes(1000) + 1000 * 4096);
  // With the most records and threads the sum is still a sum.
  EXPECT_GT(RaceBytes(4096 * kMaxRecordsPerThread, true, true),
            RaceBytes(4096 * kMaxRecordsPerThread, true, false));
}

TEST(StoreBasicsTest, ParsesModesAndNodes) {
  EXPECT_EQ(ParseNuma("none")->mode, NumaMode::kNone);
  EXPECT_EQ(ParseNuma("interleave")->mode, NumaMode::kInterleave);
  EXPECT_TRUE(ParseNuma("interleave")->nodes.empty());
  EXPECT_EQ(ParseNuma("interleave:1")->nodes, std::vector<uint32_t>{1});
  EXPECT_EQ(ParseNuma("bind:0,2-3")->mode, NumaMode::kBind);
  EXPECT_EQ(ParseNuma("bind:0,2-3")->nodes, (std::vector<uint32_t>{0, 2, 3}));
  for (const char* text :
       {"", "nonsense", "none:0", "bind", "bind:", "bind:x", "interleave:", "bind:1024"}) {
    EXPECT_FALSE(ParseNuma(text).has_value()) << text;
  }
}

TEST(StoreBasicsTest, FindsANodeThatIsNotThere) {
  engine_race::numa::Topology topology;
  topology.nodes = {{0, {}, 0, {}}, {2, {}, 0, {}}};
  EXPECT_FALSE(MissingNode(*ParseNuma("bind:0,2"), topology).has_value());
  EXPECT_EQ(MissingNode(*ParseNuma("bind:0-2"), topology), 1u);
  EXPECT_FALSE(MissingNode(*ParseNuma("none"), topology).has_value());
}

}  // namespace
}  // namespace harness
