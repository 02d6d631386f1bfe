// The names that a bench may remove, exactly those that the engine gives its files, and the space
// of a race.
#include "harness/load/store_basics.h"

#include <gtest/gtest.h>

namespace engine_race::harness {
namespace {

TEST(IsStoreFileTest, KnowsTheNamesOfTheEngine) {
  for (const char* const name :
       {"manifest", "manifest.new", "manifest.draft", "manifest_path", "manifest_path.new",
        "manifest_lock", "manifest_segments", "key_00", "key_1023", "value_00", "key_index_root",
        "key_index_root.new", "key_index_12", "staging_counts", "staging_keys", "staging_values",
        "staging_journal"}) {
    EXPECT_TRUE(IsStoreFile(name)) << name;
  }
}

TEST(IsStoreFileTest, KnowsTheStatsThatAKilledStoreLeavesBehind) {
  EXPECT_TRUE(IsStoreFile("manifest_stats"));
  EXPECT_TRUE(IsStoreFile("manifest_stats.new"));
}

TEST(IsStoreFileTest, LeavesNamesThatOnlyBeginAlike) {
  for (const char* const name :
       {"manifest.json", "manifest_stats.json", "manifest_old", "key_mine.pem", "key_", "key_1",
        "key_00.pem", "key_12345", "value_map", "value_00.bak", "staging_notes", "staging_00",
        "key_index_", ""}) {
    EXPECT_FALSE(IsStoreFile(name)) << name;
  }
}

TEST(RaceBytesTest, CountsWhatThePhasesWrite) {
  EXPECT_EQ(RaceBytes(1000, false, false), 0u);
  EXPECT_EQ(RaceBytes(1000, true, false), StoreBytes(1000));
  EXPECT_EQ(RaceBytes(1000, false, true), 1000u * 4096);
  EXPECT_EQ(RaceBytes(1000, true, true), StoreBytes(1000) + 1000 * 4096);
  EXPECT_EQ(RaceBytes(1000, false, true, 100), 1000u * 100);
  EXPECT_EQ(RaceBytes(1000, true, true, 100), StoreBytes(1000, 100) + 1000 * 100);
  // A slot of 512 bytes, and 32 bytes of an entry.
  EXPECT_EQ(StoreBytes(1000, 512) - StoreBytes(0, 512), 1000u * (512 + 32));
  // With the most records and threads the sum is still a sum.
  EXPECT_GT(RaceBytes(4096 * kMaxRecordsPerThread, true, true),
            RaceBytes(4096 * kMaxRecordsPerThread, true, false));
}

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
