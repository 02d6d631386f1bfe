// Which names a bench may remove: exactly those that the engine gives its files.
#include "harness/load/store_basics.h"

#include <gtest/gtest.h>

namespace harness {
namespace {

TEST(IsStoreFileTest, KnowsTheNamesOfTheEngine) {
  for (const char* const name :
       {"manifest", "manifest.new", "manifest.draft", "manifest_path", "manifest_path.new",
        "manifest_lock", "manifest_extents_00", "key_00", "key_1023", "key_07.new", "value_00",
        "key_index_root", "key_index_root.new", "key_index_12", "staging_counts", "staging_keys",
        "staging_values", "staging_journal"}) {
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

}  // namespace
}  // namespace harness
