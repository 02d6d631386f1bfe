#include "harness/load/store_basics.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TEST(NumaFlagTest, ParsesModesAndNodes) {
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

TEST(NumaFlagTest, FindsANodeThatIsNotThere) {
  numa::Topology topology;
  topology.from_kernel = true;
  topology.nodes = {{0, {}, 0, {}}, {2, {}, 0, {}}};
  NumaOptions numa;
  EXPECT_EQ(ParseNumaFlag("bind:0,2", topology, &numa), "");
  EXPECT_EQ(numa.nodes, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(ParseNumaFlag("bind:0-2", topology, &numa), "--numa bind:0-2: there is no node 1");
  EXPECT_EQ(numa.nodes, (std::vector<uint32_t>{0, 2})) << "a wrong flag changes nothing";
  EXPECT_EQ(ParseNumaFlag("none", topology, &numa), "");
  EXPECT_EQ(numa.mode, NumaMode::kNone);
  EXPECT_NE(ParseNumaFlag("nonsense", topology, &numa), "");
  // Without the kernel's word the store decides.
  topology.from_kernel = false;
  EXPECT_EQ(ParseNumaFlag("bind:0-2", topology, &numa), "");
}

}  // namespace
}  // namespace engine_race::harness
