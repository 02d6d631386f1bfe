#include "engine_race/index/part_builder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "test/index/index_test_util.h"
#include "test/test_util.h"

namespace engine_race {
namespace {

using test::Encode;
using test::EntriesOf;
using test::ExpectSameEntries;
using test::MakeRecords;
using test::Model;
using test::Order;
using test::RawOf;
using test::Shape;
using test::TableOf;

constexpr size_t kSlabBytes = 1 << 20;

void ExpectSoundTables(const BucketIndex::Row& row) {
  for (const auto& part : row) {
    const SortedRun& run = part->run;
    ASSERT_GT(run.count(), 0U);
    ASSERT_EQ(run.min_key(), run.keys()[0]);
    ASSERT_EQ(run.max_key(), run.keys()[run.count() - 1]);
    for (size_t i = 0; i < run.count(); ++i) {
      ASSERT_EQ(run.Rank(run.keys()[i]), i);
      ASSERT_EQ(run.Locate(run.keys()[i]), run.refs() + i);
    }
  }
}

TEST(PartBuilderTest, KeepsTheNewestOfEveryKeyInEveryShape) {
  SlabAllocator slabs(kSlabBytes);
  PartBuilder builder(&slabs);
  for (const Shape shape : test::AllShapes()) {
    for (const Order order : {Order::kAlong, Order::kReversed, Order::kShuffled}) {
      for (const uint32_t count : {1U, 2U, 3U, 31U, 1000U, 20000U}) {
        SCOPED_TRACE(test::NameOf(shape) + ", " + std::to_string(count) + " records, order " +
                     std::to_string(static_cast<int>(order)));
        const std::vector<KeyRecord> records = MakeRecords(shape, count, order);
        const std::vector<format::KeyEntry> entries = Encode(records);
        const SlotTable table = TableOf(records);
        BuiltParts built;
        ASSERT_TRUE(builder.Build(RawOf(entries, &table), &built).ok());
        ASSERT_TRUE(built.damaged_slots.empty());
        ExpectSameEntries(EntriesOf(built.parts), Model(records).Entries());
        ExpectSoundTables(built.parts);
      }
    }
  }
}

// A record that was moved is still in the slot that it was moved from, until that is freed.
TEST(PartBuilderTest, NamesTheLatestCopyOfARecord) {
  constexpr uint64_t kSeal = 5;
  const EntryCodec codec(test::kTestStoreId, 0);
  for (const bool last_moved_row_first : {false, true}) {
    SlotTable table;  // rows of one slot
    std::vector<format::KeyEntry> entries;
    const auto append = [&](const KeyRecord& record) {
      table.SetRow(static_cast<uint32_t>(entries.size()), {.kind = format::RowKind::kUsed,
                                                           .number = record.sequence,
                                                           .path = SlotBits::First(1),
                                                           .held = SlotBits::First(1)});
      entries.push_back(SlotTable::EncodeAppended(codec, record, record.sequence));
    };
    const auto move = [&](const KeyRecord& record, uint64_t birth) {
      const auto slot = static_cast<uint32_t>(entries.size());
      table.SetRow(slot, {.kind = format::RowKind::kUsed,
                          .held = SlotBits::First(1),
                          .birth = birth,
                          .horizon = 8,
                          .seal = kSeal,
                          .moved_at = birth});
      entries.push_back(SlotTable::EncodeMoved(codec, record, slot, kSeal));
    };
    const KeyRecord record = {.key = 70, .sequence = 3, .value_hash = 1};
    move(record, last_moved_row_first ? 2 : 1);
    append(record);
    move(record, last_moved_row_first ? 1 : 2);
    move({.key = 71, .sequence = 5, .value_hash = 2}, 3);
    append({.key = 71, .sequence = 9, .value_hash = 3});
    SlabAllocator slabs(kSlabBytes);
    BuiltParts built;
    RawBucket raw = RawOf(entries, &table);
    raw.record_count = 10;
    ASSERT_TRUE(PartBuilder(&slabs).Build(raw, &built).ok());
    ASSERT_TRUE(built.damaged_slots.empty());
    const std::vector<IndexEntry> found = EntriesOf(built.parts);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].ref.slot(), last_moved_row_first ? 0u : 2u);
    EXPECT_EQ(found[1].ref.slot(), 4u) << "a later record, though it was never moved";
  }
}

TEST(PartBuilderTest, EmptyBucketHasNoParts) {
  SlabAllocator slabs(kSlabBytes);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs).Build(RawOf({}), &built).ok());
  EXPECT_TRUE(built.parts.empty());
}

TEST(PartBuilderTest, AllTombstonesLeaveNothing) {
  std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 100, Order::kAlong);
  for (KeyRecord& record : records) {
    record.tombstone = true;
    record.value_hash = 0;
  }
  const std::vector<format::KeyEntry> entries = Encode(records);
  SlabAllocator slabs(kSlabBytes);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs).Build(RawOf(entries), &built).ok());
  EXPECT_TRUE(built.parts.empty());
  EXPECT_TRUE(built.damaged_slots.empty());
}

TEST(PartBuilderTest, LargeBucketsBecomeSeveralParts) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 10000, Order::kAlong);
  const std::vector<format::KeyEntry> entries = Encode(records);
  SlabAllocator slabs(kSlabBytes);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs, 3000).Build(RawOf(entries), &built).ok());
  EXPECT_EQ(built.parts.size(), 4U);
  ExpectSameEntries(EntriesOf(built.parts), Model(records).Entries());
  ExpectSoundTables(built.parts);
}

// A record that is older than a damaged one is dropped, and a newer one is kept.
TEST(PartBuilderTest, DamagedBucketKeepsOnlyWhatIsProvablyNewest) {
  for (const Order order : {Order::kAlong, Order::kReversed, Order::kShuffled}) {
    const std::vector<KeyRecord> records = MakeRecords(Shape::kTombstones, 2000, order);
    std::vector<format::KeyEntry> entries = Encode(records);
    const SlotTable table = TableOf(records);
    entries[700].check ^= uint64_t{1} << 63;
    entries[701].key ^= 4;
    const uint64_t lost = std::max(records[700].sequence, records[701].sequence);
    Model provable;
    for (const KeyRecord& record : records) {
      if (record.sequence > lost) provable.Add(record);
    }
    SlabAllocator slabs(kSlabBytes);
    BuiltParts built;
    ASSERT_TRUE(PartBuilder(&slabs).Build(RawOf(entries, &table), &built).ok());
    EXPECT_EQ(built.damaged_slots, (std::vector<uint32_t>{700, 701}));
    ExpectSameEntries(EntriesOf(built.parts), provable.Entries(0, ~uint64_t{0}, true));
  }
}

TEST(PartBuilderTest, LostSlotsAreDamaged) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 1000, Order::kAlong);
  const std::vector<format::KeyEntry> entries = Encode(records);
  RawBucket raw = RawOf(entries);
  raw.lost_begin = 990;
  raw.lost_end = 995;
  SlabAllocator slabs(kSlabBytes);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs).Build(raw, &built).ok());
  EXPECT_EQ(built.damaged_slots, (std::vector<uint32_t>{990, 991, 992, 993, 994}));
  EXPECT_EQ(EntriesOf(built.parts).size(), 5U);
}

TEST(PartBuilderTest, KeyOfAnotherBucketIsDamage) {
  std::vector<KeyRecord> records = MakeRecords(Shape::kSequential, 100, Order::kAlong);
  records[3].key = uint64_t{1} << 63;
  const std::vector<format::KeyEntry> entries = Encode(records);
  RawBucket raw = RawOf(entries);
  raw.keys.last = (uint64_t{1} << 54) - 1;
  SlabAllocator slabs(kSlabBytes);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs).Build(raw, &built).ok());
  EXPECT_EQ(built.damaged_slots, (std::vector<uint32_t>{3}));
}

TEST(PartBuilderTest, UniformKeysCostLessThanSeventeenBytes) {
  const std::vector<KeyRecord> records = MakeRecords(Shape::kUniform, 62500, Order::kAlong);
  const std::vector<format::KeyEntry> entries = Encode(records);
  SlabAllocator slabs(kSlabBytes * 4);
  BuiltParts built;
  ASSERT_TRUE(PartBuilder(&slabs).Build(RawOf(entries), &built).ok());
  ASSERT_EQ(built.parts.size(), 1U);
  EXPECT_LT(static_cast<double>(built.parts[0]->memory_bytes()) / 62500, 16.4);
}

}  // namespace
}  // namespace engine_race
