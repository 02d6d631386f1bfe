// DirtyBuckets: which buckets wait to be cleaned.
#include "engine_race/reclaim/dirty_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "test/index/refused_memory.h"
#include "test/log/log_test_util.h"
#include "test/reclaim/cleaner_fixture.h"

namespace engine_race::test {
namespace {

// Writers would help for ever, and nobody would clean the bucket.
TEST(DirtyBucketsTest, ABucketForWhichThereWasNoMemoryIsTakenLater) {
  constexpr uint64_t kMuchLater = 100000;
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->Append(0, ValueOf(0, 1).data()).ok());
  DirtyBuckets dirty(TinyLogOptions(), *log, [] {});
  {
    const RefuseMemory refusal(0);
    dirty.OnKeyGroup(0, {}, kMuchLater);
    ASSERT_TRUE(refusal.refused());
  }
  EXPECT_FALSE(dirty.are_many());
  dirty.OnKeyGroup(0, {}, kMuchLater);
  EXPECT_TRUE(dirty.are_many());
  uint32_t bucket = 1;
  ASSERT_TRUE(dirty.Take(&bucket));
  EXPECT_EQ(bucket, 0u);
  EXPECT_FALSE(dirty.are_many());
}

// A batch may hold it for long: other buckets are cleaned meanwhile.
TEST(DirtyBucketsTest, ABucketThatIsPutAsideComesBack) {
  constexpr uint64_t kLater = 100000;
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  for (const uint64_t key : {uint64_t{0}, uint64_t{1} << 62}) {
    ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
  }
  DirtyBuckets dirty(TinyLogOptions(), *log, [] {});
  uint32_t bucket = 7;
  dirty.OnKeyGroup(0, {}, kLater);
  ASSERT_TRUE(dirty.Take(&bucket));
  EXPECT_EQ(bucket, 0u);
  dirty.PutAside(bucket);
  EXPECT_TRUE(dirty.has_aside());
  EXPECT_TRUE(dirty.empty());
  EXPECT_FALSE(dirty.Take(&bucket));
  dirty.OnKeyGroup(1, {}, kLater);
  ASSERT_TRUE(dirty.Take(&bucket));
  EXPECT_EQ(bucket, 1u);
  dirty.BringBack();
  EXPECT_FALSE(dirty.has_aside());
  ASSERT_TRUE(dirty.Take(&bucket));
  EXPECT_EQ(bucket, 0u);
  EXPECT_FALSE(dirty.Take(&bucket));
}

std::vector<format::KeyEntry> EntriesOf(const std::vector<uint64_t>& keys) {
  std::vector<format::KeyEntry> entries(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) entries[i].key = keys[i];
  return entries;
}

// Hands groups of 256 keys to bucket 0: of each, `hot_count` are of one key, the others are new.
// Returns after how many groups the bucket waits to be cleaned, 65: after none of 64.
uint64_t GroupsUntilItWaits(DirtyBuckets* dirty, uint64_t hot_key, uint64_t hot_count) {
  uint64_t next_key = 1000;
  for (uint64_t group = 1; group <= 64; ++group) {
    std::vector<uint64_t> keys(hot_count, hot_key);
    while (keys.size() < 256) keys.push_back(next_key++);
    dirty->OnKeyGroup(0, EntriesOf(keys), group * 256);
    if (!dirty->empty()) return group;
  }
  return 65;
}

// Also where the key is not in the sample.
TEST(DirtyBucketsTest, ABucketWithOneHotKeyIsFound) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  for (uint64_t hot_key = 0; hot_key < 100; ++hot_key) {
    DirtyBuckets dirty(TinyLogOptions(), *log, [] {});
    EXPECT_LE(GroupsUntilItWaits(&dirty, hot_key, 100), 2u) << "key " << hot_key;
  }
}

TEST(DirtyBucketsTest, ABucketWithFewReplacedRecordsDoesNotWait) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  // A key of the sample counts 64 times.
  Options options = TinyLogOptions();
  options.reclaim_dead_percent = 50;
  for (uint64_t hot_key = 0; hot_key < 100; ++hot_key) {
    DirtyBuckets dirty(options, *log, [] {});
    EXPECT_EQ(GroupsUntilItWaits(&dirty, hot_key, 10), 65u) << "key " << hot_key;
  }
}

// Whichever of the keys are in the sample, and however few of them.
TEST(DirtyBucketsTest, ABucketIsFoundThatIsOverwrittenInTheOrderOfItsKeys) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < 200; ++i) {
    DirtyBuckets dirty(TinyLogOptions(), *log, [] {});
    std::vector<uint64_t> keys(256);
    std::generate(keys.begin(), keys.end(), std::ref(random));
    for (uint64_t pass = 1; pass <= 8; ++pass) dirty.OnKeyGroup(0, EntriesOf(keys), pass * 256);
    EXPECT_FALSE(dirty.empty()) << "bucket " << i;
  }
}

class DirtyBucketsAfterOpeningTest : public BucketCleanerTest {
 protected:
  // Whether bucket 0 waits after a group of keys that it did not have. The group began before the
  // opening.
  bool WaitsAfterAGroup() {
    DirtyBuckets dirty(options_, *log_, [] {});
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < kRow; ++i) keys.push_back(next_key_ + i);
    dirty.OnKeyGroup(0, EntriesOf(keys), log_->RecordCount(0) + kRow / 2);
    return !dirty.empty();
  }
};

// Otherwise a store that is opened often, for few writes each, would never be cleaned.
TEST_F(DirtyBucketsAfterOpeningTest, ABucketWhoseSlotsWereUsedAgainWaitsSoon) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  for (uint32_t cell = 0; cell < kCells; ++cell) ASSERT_NO_FATAL_FAILURE(KillIn(0, cell, kCell));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  EXPECT_FALSE(WaitsAfterAGroup());
  Clean(0);
  ASSERT_NO_FATAL_FAILURE(Settle());
  Open();
  EXPECT_TRUE(WaitsAfterAGroup());
}

}  // namespace
}  // namespace engine_race::test
