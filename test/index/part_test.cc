#include "engine_race/index/part.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include "engine_race/index/part_builder.h"
#include "test/index/index_test_util.h"

namespace engine_race {
namespace {

using test::ExpectSameEntries;
using test::Model;

constexpr size_t kNoSplit = 1 << 20;

KeyRecord Record(uint64_t key, uint64_t sequence, bool tombstone = false) {
  KeyRecord record = test::RecordInSlot(key, static_cast<uint32_t>(sequence), tombstone);
  if (!tombstone) record.value_hash = (key & 0xffff) << (64 - format::kChecksumBits);
  return record;
}

// A part with the given run, and the records of `newer` in its delta.
std::unique_ptr<Part> MakePart(const std::vector<KeyRecord>& older,
                               const std::vector<KeyRecord>& newer) {
  SlabAllocator slabs(1 << 20);
  BucketIndex::Row row;
  EXPECT_TRUE(PartBuilder(&slabs).MakeParts(Model(older).Entries(), &row).ok());
  std::unique_ptr<Part> part = row.empty() ? std::make_unique<Part>() : std::move(row[0]);
  EXPECT_TRUE(Delta::Create(1024, &part->delta).ok());
  for (const KeyRecord& record : newer) part->delta.Put(record.key, ValueRef(record), 0, false);
  return part;
}

Status MergeOne(const Part& part, const LiveVersions& live, const FrameSlots& frames,
                bool keep_tombstones, size_t split_records, PartReplacement* replacement,
                uint64_t extent_max_key = 0) {
  const MergeSource source = {&part.run, &part.delta, part.history, extent_max_key};
  return MergeParts({&source, 1}, live, frames, keep_tombstones, split_records, replacement,
                    Placement());
}

std::vector<IndexEntry> EntriesOf(const PartReplacement& replacement) {
  return test::EntriesOf(replacement.parts);
}

TEST(PartTest, MergesRandomDeltas) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t key_space = 1 + random() % 500;
    std::vector<KeyRecord> older;
    std::vector<KeyRecord> newer;
    uint64_t sequence = 0;
    for (uint64_t i = random() % 300; i > 0; --i) {
      older.push_back(Record(random() % key_space, sequence++));
    }
    for (uint64_t i = 1 + random() % 300; i > 0; --i) {
      newer.push_back(Record(random() % key_space, sequence++, random() % 3 == 0));
    }
    const std::unique_ptr<Part> part = MakePart(older, newer);
    Model model(older);
    for (const KeyRecord& record : newer) model.Add(record);
    for (const bool keep_tombstones : {false, true}) {
      PartReplacement replacement;
      ASSERT_TRUE(
          MergeOne(*part, LiveVersions(), FrameSlots(), keep_tombstones, kNoSplit, &replacement)
              .ok());
      EXPECT_FALSE(replacement.keeps_old_run);
      ExpectSameEntries(EntriesOf(replacement), model.Entries(0, ~uint64_t{0}, keep_tombstones));
      for (const auto& merged : replacement.parts) {
        for (size_t i = 0; i < merged->run.count(); ++i) {
          ASSERT_EQ(merged->run.Rank(merged->run.keys()[i]), i);
        }
      }
    }
  }
}

TEST(PartTest, SplitsEvenlyWhenLarge) {
  std::vector<KeyRecord> older;
  for (uint64_t i = 0; i < 1000; ++i) older.push_back(Record(i * 3, i));
  std::vector<KeyRecord> newer;
  for (uint64_t i = 0; i < 100; ++i) newer.push_back(Record(i * 7 + 1, 1000 + i));
  const std::unique_ptr<Part> part = MakePart(older, newer);
  PartReplacement replacement;
  Model model(older);
  for (const KeyRecord& record : newer) model.Add(record);
  for (const size_t limit : {1000, 300, 17}) {
    SCOPED_TRACE(limit);
    ASSERT_TRUE(MergeOne(*part, LiveVersions(), FrameSlots(), false, limit, &replacement).ok());
    const size_t total = model.Entries().size();
    ASSERT_EQ(replacement.parts.size(), (total + limit - 1) / limit);
    const size_t share = (total + replacement.parts.size() - 1) / replacement.parts.size();
    for (size_t i = 0; i + 1 < replacement.parts.size(); ++i) {
      EXPECT_EQ(replacement.parts[i]->run.count(), share);
    }
    ExpectSameEntries(EntriesOf(replacement), model.Entries());
  }
}

// The extent goes on to be named with all of its keys. No other extent may begin among them.
TEST(PartTest, KeysWithinTheExtentOfARunAreNotAppended) {
  std::vector<KeyRecord> older;
  for (uint64_t i = 0; i < 1000; ++i) older.push_back(Record(i, i));
  const std::unique_ptr<Part> part = MakePart(older, {Record(1000, 1000)});
  for (const uint64_t extent_max_key : {0, 999, 1000, 1001}) {
    PartReplacement replacement;
    ASSERT_TRUE(
        MergeOne(*part, LiveVersions(), FrameSlots(), false, 1000, &replacement, extent_max_key)
            .ok());
    EXPECT_EQ(replacement.keeps_old_run, extent_max_key < 1000) << extent_max_key;
    EXPECT_EQ(EntriesOf(replacement).size(), extent_max_key < 1000 ? 1u : 1001u);
  }
}

TEST(PartTest, AppendedKeysLeaveAFullRunAlone) {
  std::vector<KeyRecord> older;
  for (uint64_t i = 0; i < 1000; ++i) older.push_back(Record(i, i));
  std::vector<KeyRecord> newer;
  for (uint64_t i = 0; i < 100; ++i) newer.push_back(Record(1000 + i, 1000 + i));
  const std::unique_ptr<Part> part = MakePart(older, newer);
  PartReplacement replacement;
  ASSERT_TRUE(MergeOne(*part, LiveVersions(), FrameSlots(), false, 1050, &replacement).ok());
  EXPECT_TRUE(replacement.keeps_old_run);
  ExpectSameEntries(EntriesOf(replacement), Model(newer).Entries());
}

// Changes that may happen while no thread holds the bucket's lock.
TEST(PartTest, EvictionsDuringAMergeAreCaughtUpWith) {
  const std::vector<KeyRecord> older = {Record(10, 0), Record(20, 1), Record(30, 2)};
  const std::unique_ptr<Part> part = MakePart(older, {Record(40, 3), Record(20, 4)});
  std::vector<std::atomic<uint32_t>> slots(4);
  FrameSlots frames;
  frames.set_slots(slots.data());
  const auto swizzle = [&](uint64_t key, uint32_t frame) {
    RefWord* const word = part->Locate(key, {});
    ValueRef ref = word->Load();
    slots[frame] = ref.slot();
    ASSERT_TRUE(word->Exchange(&ref, ref.InFrame(frame)));
  };
  swizzle(10, 1);
  swizzle(40, 2);
  PartReplacement replacement;
  ASSERT_TRUE(MergeOne(*part, LiveVersions(), frames, false, kNoSplit, &replacement).ok());
  ASSERT_EQ(replacement.parts.size(), 1U);
  const Part& merged = *replacement.parts[0];
  EXPECT_EQ(merged.Locate(10, {})->Load(), part->Locate(10, {})->Load());
  EXPECT_EQ(merged.Locate(40, {})->Load(), part->Locate(40, {})->Load());
  swizzle(30, 3);
  replacement.CopyHotWordsAgain(frames);
  EXPECT_EQ(merged.Locate(40, {})->Load(), part->Locate(40, {})->Load())
      << "nothing to catch up with";

  part->Locate(40, {})->Store(frames.SlotOf(*part->Locate(40, {})));
  frames.CountUnswizzle();
  replacement.CopyHotWordsAgain(frames);
  EXPECT_EQ(merged.Locate(10, {})->Load(), part->Locate(10, {})->Load());
  EXPECT_EQ(merged.Locate(40, {})->Load(), ValueRef(3, 40, false));
  EXPECT_EQ(merged.Locate(30, {})->Load(), ValueRef(2, 30, false))
      << "in its slot, if not in a frame";
  EXPECT_EQ(merged.Locate(20, {})->Load(), ValueRef(4, 20, false));
}

TEST(PartTest, TombstonesForEverythingLeaveNoPart) {
  std::vector<KeyRecord> older;
  std::vector<KeyRecord> newer;
  for (uint64_t i = 0; i < 100; ++i) {
    older.push_back(Record(i, i));
    newer.push_back(Record(i, 100 + i, true));
  }
  const std::unique_ptr<Part> part = MakePart(older, newer);
  PartReplacement replacement;
  ASSERT_TRUE(MergeOne(*part, LiveVersions(), FrameSlots(), false, kNoSplit, &replacement).ok());
  EXPECT_TRUE(replacement.parts.empty());
  EXPECT_FALSE(replacement.keeps_old_run);
}

TEST(PartTest, DeltaLimitGrowsWithTheRoot) {
  EXPECT_EQ(DeltaLimit(0), 64U);
  EXPECT_EQ(DeltaLimit(62500), 500U);
  EXPECT_EQ(DeltaLimit(size_t{1} << 26), 1024U);
}

}  // namespace
}  // namespace engine_race
