// Tombstones that walks step over: the keeper merges them away, flat or paged, and no view loses a
// record by that.
#include "engine_race/index/crossed_tombstones.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "test/eventually.h"
#include "test/index/paged_index_fixture.h"

namespace engine_race::test {
namespace {

TEST(CrossedTombstonesTest, AskOnceForEachTimeThatAMergeIsWorthIt) {
  CrossedTombstones crossed;
  EXPECT_FALSE(crossed.Add(99, 100));
  EXPECT_FALSE(crossed.is_enough(100));
  EXPECT_TRUE(crossed.Add(1, 100));
  EXPECT_TRUE(crossed.is_enough(100));
  EXPECT_FALSE(crossed.Add(99, 100));
  EXPECT_TRUE(crossed.Add(250, 100));
  crossed.Reset();
  EXPECT_FALSE(crossed.is_enough(100));
  // A small part is worth no merge for each walk.
  EXPECT_FALSE(crossed.Add(10, 2));
}

// The parameter: the memory of the index.
class CrossedIndexTest : public PagedIndexFixture, public ::testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr uint64_t kKeys = 8000;

  CrossedIndexTest() : PagedIndexFixture(/*frame_count=*/64) {
    options_.index_memory_bytes = GetParam();
  }

  // The keys that a view shows in the first bucket.
  std::vector<uint64_t> KeysAt(uint64_t version) {
    std::vector<uint64_t> keys(kKeys);
    size_t count = 0;
    EXPECT_TRUE(index_->FirstKeys(0, LastOfFirstBucket(), version, keys, &count).ok());
    keys.resize(count);
    return keys;
  }
  uint64_t LastOfFirstBucket() const { return log_->geometry().LastKeyOf(0); }
  // Walks both ways until the first bucket with records is not bucket 0 any more.
  bool WalksSkipIt() {
    return Eventually([&] {
      EXPECT_TRUE(KeysAt(kLatestVersion).empty());
      uint64_t key = 0;
      size_t count = 0;
      EXPECT_TRUE(index_->LastKeys(0, LastOfFirstBucket(), kLatestVersion, {&key, 1}, &count).ok());
      EXPECT_EQ(count, 0U);
      return index_->NextHeld(0) == 1;
    });
  }
};

TEST_P(CrossedIndexTest, AMergeMakesTheBucketOneThatWalksSkip) {
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  for (const uint64_t key : KeysAt(kLatestVersion)) {
    ASSERT_NO_FATAL_FAILURE(Write(key, /*tombstone=*/true));
  }
  // A quick keeper has merged them by now.
  EXPECT_LE(index_->NextHeld(0), 1U);
  EXPECT_TRUE(WalksSkipIt());
  ExpectWalks();
  // Records come again.
  ASSERT_NO_FATAL_FAILURE(Write(7));
  EXPECT_EQ(index_->NextHeld(0), 0U);
  ExpectWalks();
}

TEST_P(CrossedIndexTest, AViewKeepsItsRecords) {
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  ViewRegistry::View view;
  ASSERT_TRUE(index_->views().Take(&view).ok());
  const std::vector<uint64_t> keys = KeysAt(kLatestVersion);
  for (const uint64_t key : keys) ASSERT_NO_FATAL_FAILURE(Write(key, /*tombstone=*/true));
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(KeysAt(kLatestVersion).empty());
    ASSERT_EQ(KeysAt(view.version), keys);
    ASSERT_EQ(index_->NextHeld(0), 0U);
    std::this_thread::yield();
  }
  ViewRegistry::Release(&view);
  EXPECT_TRUE(WalksSkipIt());
  ExpectWalks();
}

TEST_P(CrossedIndexTest, WalksBesideDeletesFindWhatIsLeft) {
  ASSERT_NO_FATAL_FAILURE(Fill(kKeys));
  const std::vector<uint64_t> keys = KeysAt(kLatestVersion);
  std::atomic<bool> is_done{false};
  std::thread walker([&] {
    while (!is_done) {
      // The last keys of the bucket stay. Those before go in order.
      const std::vector<uint64_t> left = KeysAt(kLatestVersion);
      ASSERT_GE(left.size(), 10U);
      ASSERT_TRUE(std::equal(left.rbegin(), left.rend(), keys.rbegin()));
    }
  });
  for (size_t i = 0; i + 10 < keys.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(Write(keys[i], /*tombstone=*/true));
  }
  is_done = true;
  walker.join();
  ExpectWalks();
}

INSTANTIATE_TEST_SUITE_P(Memory, CrossedIndexTest, ::testing::Values(0, uint64_t{1} << 30),
                         [](const auto& memory) { return memory.param == 0 ? "Paged" : "Flat"; });

}  // namespace
}  // namespace engine_race::test
