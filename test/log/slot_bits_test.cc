#include "engine_race/log/slot_bits.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace engine_race {
namespace {

constexpr uint32_t kSlots = format::kMaxRowRecords;

SlotBits BitsOf(const std::set<uint32_t>& slots) {
  SlotBits bits;
  for (const uint32_t slot : slots) bits.Add(slot);
  return bits;
}

TEST(SlotBitsTest, TheFirstSlots) {
  for (uint32_t count = 0; count <= kSlots; ++count) {
    const SlotBits bits = SlotBits::First(count);
    ASSERT_EQ(bits.count(), count);
    ASSERT_EQ(bits.empty(), count == 0);
    for (uint32_t slot = 0; slot < kSlots; ++slot) ASSERT_EQ(bits.Has(slot), slot < count);
  }
}

// Compared with a set of numbers.
TEST(SlotBitsTest, CountsAndFindsAsASetDoes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::set<uint32_t> slots;
    const uint64_t wanted = random() % (kSlots + 1);
    while (slots.size() < wanted) slots.insert(static_cast<uint32_t>(random() % kSlots));
    const SlotBits bits = BitsOf(slots);
    ASSERT_EQ(bits.count(), slots.size());
    uint32_t before = 0;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_EQ(bits.Has(slot), slots.count(slot) != 0);
      ASSERT_EQ(bits.CountBefore(slot), before);
      uint32_t end = slot;
      while (end < kSlots && slots.count(end) != 0) ++end;
      ASSERT_EQ(bits.EndFrom(slot), end) << slot;
      if (slots.count(slot) == 0) continue;
      ASSERT_EQ(bits.Nth(before), slot);
      ++before;
      ASSERT_EQ(bits.FirstOf(before), bits & SlotBits::First(slot + 1));
    }
    ASSERT_EQ(bits.FirstOf(kSlots), bits);
  }
}

TEST(SlotBitsTest, OperatorsAreThoseOfSets) {
  const SlotBits a = BitsOf({0, 63, 64, 200});
  const SlotBits b = BitsOf({63, 200, 255});
  EXPECT_EQ(a & b, BitsOf({63, 200}));
  EXPECT_EQ(a | b, BitsOf({0, 63, 64, 200, 255}));
  EXPECT_EQ(a - b, BitsOf({0, 64}));
}

}  // namespace
}  // namespace engine_race
