// Records in every shape that an index has to bear.
#ifndef TEST_INDEX_RECORD_SHAPES_H_
#define TEST_INDEX_RECORD_SHAPES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine_race/log/entry_codec.h"

namespace engine_race::test {

enum class Shape {
  kUniform,
  kSequential,
  kDescending,
  kPrefix,
  kOneKey,
  kFewKeys,
  kSkewed,
  kTombstones,
  kEnds,
};
inline const std::vector<Shape>& AllShapes() {
  static const std::vector<Shape> shapes = {Shape::kUniform, Shape::kSequential, Shape::kDescending,
                                            Shape::kPrefix,  Shape::kOneKey,     Shape::kFewKeys,
                                            Shape::kSkewed,  Shape::kTombstones, Shape::kEnds};
  return shapes;
}

inline uint64_t ShapeKey(Shape shape, uint64_t i, std::mt19937_64* random) {
  switch (shape) {
    case Shape::kUniform:
      return (*random)();
    case Shape::kSequential:
      return 1000 + i;
    case Shape::kDescending:
      return 1000000000 - i;
    case Shape::kPrefix:
      return 0xabcdef0000000000 | ((*random)() & 0xffffffff);
    case Shape::kOneKey:
      return 42;
    case Shape::kFewKeys:
      return (*random)() % 50;
    case Shape::kSkewed:
      // Nearly all keys lie in a narrow range, a few far off.
      return i % 1000 == 0 ? (*random)() : (uint64_t{1} << 40) + (*random)() % 100000;
    case Shape::kTombstones:
      return (*random)() % 1000;
    case Shape::kEnds:
      return i % 3 == 0 ? 0 : (i % 3 == 1 ? ~uint64_t{0} : (*random)());
  }
  return 0;
}

// The order of sequence numbers: along the slots, against them, or shuffled.
enum class Order { kAlong, kReversed, kShuffled };

// A record whose slot is its number. Its checksum in the index is the low 16 bits of the slot.
inline KeyRecord RecordInSlot(uint64_t key, uint32_t slot, bool tombstone = false) {
  const uint64_t hash = uint64_t{slot & 0xffff} << (64 - format::kChecksumBits);
  return {.key = key,
          .sequence = slot,
          .value_hash = tombstone ? 0 : hash,
          .slot = slot,
          .tombstone = tombstone};
}

// Neighbours in a row of `row_records` slots have neighbouring sequence numbers. The last row is a
// whole one, unless the order is along the slots.
inline std::vector<KeyRecord> MakeRecords(Shape shape, uint32_t count, Order order,
                                          uint64_t seed = 1, uint32_t row_records = 1) {
  std::mt19937_64 random(seed);
  EXPECT_TRUE(order == Order::kAlong || count % row_records == 0);
  std::vector<uint64_t> runs((count + row_records - 1) / row_records);
  std::iota(runs.begin(), runs.end(), 0);
  if (order == Order::kReversed) std::reverse(runs.begin(), runs.end());
  if (order == Order::kShuffled) std::shuffle(runs.begin(), runs.end(), random);
  std::vector<KeyRecord> records(count);
  for (uint32_t i = 0; i < count; ++i) {
    KeyRecord& record = records[i];
    record.key = ShapeKey(shape, i, &random);
    record.sequence = runs[i / row_records] * row_records + i % row_records;
    record.slot = i;
    record.tombstone = shape == Shape::kTombstones && random() % 3 == 0;
    record.value_hash = record.tombstone ? 0 : random();
  }
  return records;
}

inline std::string NameOf(Shape shape) {
  static const char* const names[] = {"uniform",  "sequential", "descending", "prefix", "one key",
                                      "few keys", "skewed",     "tombstones", "ends"};
  return names[static_cast<int>(shape)];
}

}  // namespace engine_race::test

#endif  // TEST_INDEX_RECORD_SHAPES_H_
