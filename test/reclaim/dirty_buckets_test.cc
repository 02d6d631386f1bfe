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
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
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
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
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

// A writer that helps may put it aside while the thread that brings it back sleeps without end.
TEST(DirtyBucketsTest, TheThreadIsWokenForABucketThatIsPutAside) {
  constexpr uint64_t kLater = 100000;
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  ASSERT_TRUE(log->Append(0, ValueOf(0, 1).data()).ok());
  int wake_count = 0;
  bool had_aside = false;
  std::unique_ptr<DirtyBuckets> dirty;
  dirty = std::make_unique<DirtyBuckets>(TinyLogOptions(), log.get(), [&] {
    ++wake_count;
    had_aside = dirty->has_aside();
  });
  uint32_t bucket = 7;
  dirty->OnKeyGroup(0, {}, kLater);
  ASSERT_TRUE(dirty->Take(&bucket));
  const int before = wake_count;
  dirty->PutAside(bucket);
  EXPECT_EQ(wake_count, before + 1);
  EXPECT_TRUE(had_aside);
  // A full group has queued it, and has woken the thread then.
  dirty->BringBack();
  dirty->PutAside(bucket);
  EXPECT_EQ(wake_count, before + 1);
}

std::vector<format::KeyEntry> EntriesOf(const std::vector<uint64_t>& keys) {
  std::vector<format::KeyEntry> entries(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    entries[i].key = keys[i];
    entries[i].word = i;
    entries[i].check = 1;
  }
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
    DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
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
    DirtyBuckets dirty(options, log.get(), [] {});
    EXPECT_EQ(GroupsUntilItWaits(&dirty, hot_key, 10), 65u) << "key " << hot_key;
  }
}

// Whichever of the keys are in the sample, and however few of them.
TEST(DirtyBucketsTest, ABucketIsFoundThatIsOverwrittenInTheOrderOfItsKeys) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  std::mt19937_64 random(1);
  for (uint64_t i = 0; i < 200; ++i) {
    DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
    std::vector<uint64_t> keys(256);
    std::generate(keys.begin(), keys.end(), std::ref(random));
    for (uint64_t pass = 1; pass <= 8; ++pass) dirty.OnKeyGroup(0, EntriesOf(keys), pass * 256);
    EXPECT_FALSE(dirty.empty()) << "bucket " << i;
  }
}

// Records that were synced before their group was full have zeros there.
TEST(DirtyBucketsTest, EntriesOfZerosAreNoRecordsOfOneKey) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
  for (uint64_t group = 1; group <= 64; ++group) {
    std::vector<format::KeyEntry> entries(128);
    for (uint64_t i = 0; i < 128; ++i) {
      const KeyRecord record = {.key = group * 128 + i};
      entries.push_back(SlotTable::EncodeAppended(log->codec(0), record, i));
    }
    dirty.OnKeyGroup(0, entries, group * 256);
    ASSERT_TRUE(dirty.empty()) << group;
  }
}

// Nothing older of their keys is there, so they are dead at once.
TEST(DirtyBucketsTest, ABucketOfDeletionsIsFound) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
  std::vector<format::KeyEntry> entries(256);
  for (uint64_t i = 0; i < entries.size(); ++i) {
    KeyRecord record;
    record.key = i;
    record.slot = static_cast<uint32_t>(i);
    record.tombstone = i % 3 == 0;
    entries[i] = SlotTable::EncodeAppended(log->codec(0), record, i);
  }
  dirty.OnKeyGroup(0, entries, entries.size());
  EXPECT_FALSE(dirty.empty());
}

// Its tombstones are dead once the slots of the older records are settled.
TEST(DirtyBucketsTest, ABucketWithMoreToFreeIsCleanedAgain) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
  BucketUse use = {.record_count = 3000, .live_count = 1000, .slot_count = 2048, .has_more = true};
  EXPECT_FALSE(dirty.NoteCleaned(0, 28, use)) << "nothing was freed";
  use.freed_count = 1000;
  EXPECT_TRUE(dirty.NoteCleaned(0, 28, use));
  use.has_more = false;
  EXPECT_FALSE(dirty.NoteCleaned(0, 28, use));
}

// A cleaning also finds records whose group of keys is not full yet.
TEST(DirtyBucketsTest, WhatACleaningFindsTakesThePlaceOfWhatWasCounted) {
  const TempDir dir;
  const std::unique_ptr<BucketLog> log = OpenLog(TinyLogOptions(), dir.path());
  DirtyBuckets dirty(TinyLogOptions(), log.get(), [] {});
  const std::vector<format::KeyEntry> entries = EntriesOf({1, 2, 3, 4});
  dirty.OnKeyGroup(0, entries, entries.size());
  dirty.OnKeyGroup(1, entries, entries.size());
  EXPECT_EQ(dirty.slot_count(), 2 * entries.size());
  dirty.NoteCleaned(0, 28,
                    {.record_count = 7, .live_count = 3, .held_count = 3, .slot_count = 256});
  EXPECT_EQ(dirty.slot_count(), 256 + entries.size());
  dirty.OnKeyGroup(0, entries, 7 + entries.size());
  dirty.NoteCleaned(0, 28, {.record_count = 12});
  EXPECT_EQ(dirty.slot_count(), entries.size());
}

class DirtyBucketsAfterOpeningTest : public BucketCleanerTest {
 protected:
  // Hands on what was appended since the last call, as an opening would, and ends it.
  void EndOpening(uint64_t first_key, uint64_t count, bool is_killed = false) {
    DirtyBuckets dirty(options_, log_.get(), [] {});
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(Put(first_key + i));
      keys.push_back(first_key + i);
    }
    dirty.OnKeyGroup(0, EntriesOf(keys), log_->RecordCount(0));
    if (!is_killed) dirty.Keep();
  }
  bool IsDueAtOpening() {
    Open();
    DirtyBuckets dirty(options_, log_.get(), [] {});
    dirty.QueueDue();
    return !dirty.empty();
  }
  // Whether bucket 0 waits after a group of keys that it did not have. The group began before the
  // opening.
  bool WaitsAfterAGroup() {
    DirtyBuckets dirty(options_, log_.get(), [] {});
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < kRow; ++i) keys.push_back(next_key_ + i);
    dirty.OnKeyGroup(0, EntriesOf(keys), log_->RecordCount(0) + kRow / 2);
    return !dirty.empty();
  }
};

TEST_F(DirtyBucketsAfterOpeningTest, ABucketOfWhichNothingIsKnownWaitsForAShare) {
  ASSERT_NO_FATAL_FAILURE(PutNew(6 * kRow));
  EXPECT_FALSE(WaitsAfterAGroup());
}

// Without a kept count: its records were overwritten in openings that nothing is known of.
TEST_F(DirtyBucketsAfterOpeningTest, ABucketWhoseSlotsWereUsedAgainWaitsSoon) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(0, kRow));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  Clean(0);
  ASSERT_NO_FATAL_FAILURE(Settle());
  Open();
  EXPECT_TRUE(WaitsAfterAGroup());
}

// Each of the openings alone appends too little.
TEST_F(DirtyBucketsAfterOpeningTest, WhatSeveralOpeningsAppendAddsUp) {
  ASSERT_NO_FATAL_FAILURE(EndOpening(0, 8 * kRow));
  constexpr uint64_t kEach = kRow / 2;
  uint64_t appended = 0;
  while (!IsDueAtOpening()) {
    ASSERT_LT(appended, 8 * kRow) << "as many records as there are keys";
    ASSERT_NO_FATAL_FAILURE(EndOpening(0, kEach));
    appended += kEach;
  }
  // So many dead records may lie beside 8 rows of live ones.
  const uint64_t share =
      SlotLimit(8 * kRow, options_.reclaim_dead_percent, log_->geometry()) - 8 * kRow;
  EXPECT_GE(appended, share);
  EXPECT_LE(appended, share + kEach);
}

// None of the openings closes its store.
TEST_F(DirtyBucketsAfterOpeningTest, WhatKilledOpeningsAppendAddsUp) {
  constexpr uint64_t kEach = kRow / 2;
  ASSERT_NO_FATAL_FAILURE(EndOpening(0, 8 * kRow, /*is_killed=*/true));
  uint64_t appended = 0;
  while (!IsDueAtOpening()) {
    ASSERT_LT(appended, 8 * kRow) << "as many records as there are keys";
    ASSERT_NO_FATAL_FAILURE(EndOpening(0, kEach, /*is_killed=*/true));
    appended += kEach;
  }
  // The first of them only begins to count.
  const uint64_t share = 8 * kRow * options_.reclaim_dead_percent / 100;
  EXPECT_GE(appended, share);
  EXPECT_LE(appended, share + 2 * kEach);
}

// A cleaning reads all entries: it would follow each opening.
TEST_F(DirtyBucketsAfterOpeningTest, ASmallBucketIsNotDueBeforeARowWasAppended) {
  ASSERT_NO_FATAL_FAILURE(EndOpening(0, kRow / 4));
  for (uint64_t appended = kRow / 4; appended < kRow; appended += kRow / 4) {
    ASSERT_FALSE(IsDueAtOpening()) << appended;
    ASSERT_NO_FATAL_FAILURE(EndOpening(0, kRow / 4));
  }
  EXPECT_FALSE(IsDueAtOpening());
  ASSERT_NO_FATAL_FAILURE(EndOpening(0, kRow / 4));
  EXPECT_TRUE(IsDueAtOpening());
}

TEST_F(DirtyBucketsAfterOpeningTest, WhatWasFoundReplacedIsNotForgotten) {
  ASSERT_NO_FATAL_FAILURE(EndOpening(0, 4 * kRow));
  EXPECT_FALSE(IsDueAtOpening());
  std::vector<uint64_t> keys(kRow, 7);
  {
    DirtyBuckets dirty(options_, log_.get(), [] {});
    for (uint64_t i = 0; i < 3 * kRow; ++i) ASSERT_NO_FATAL_FAILURE(Put(7));
    dirty.OnKeyGroup(0, EntriesOf(keys), log_->RecordCount(0));
    EXPECT_FALSE(dirty.empty());
  }
  EXPECT_TRUE(IsDueAtOpening());
}

// Slots that were given up and not settled take space until a cleaning gives them up again.
TEST_F(DirtyBucketsAfterOpeningTest, ABucketWithSlotsThatWaitIsDue) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  ASSERT_NO_FATAL_FAILURE(KillEvery(0, kRow));
  ASSERT_NO_FATAL_FAILURE(PutNew(2 * kRow));
  for (const bool settles : {false, true}) {
    const BucketUse use = Clean(0);
    EXPECT_GT(use.freed_count, 0u);
    DirtyBuckets dirty(options_, log_.get(), [] {});
    dirty.NoteCleaned(0, 28, use);
    if (settles) {
      ASSERT_NO_FATAL_FAILURE(Settle());
    }
    dirty.Keep();
    EXPECT_EQ(IsDueAtOpening(), !settles);
  }
}

// It would be read at each opening for nothing.
TEST_F(DirtyBucketsAfterOpeningTest, ABucketThatIsReadOnlyKeepsNothing) {
  ASSERT_NO_FATAL_FAILURE(PutNew(4 * kRow));
  Open();
  {
    DirtyBuckets(options_, log_.get(), [] {}).Keep();
  }
  Open();
  EXPECT_EQ(log_->CleanAt(0), 0u);
}

}  // namespace
}  // namespace engine_race::test
