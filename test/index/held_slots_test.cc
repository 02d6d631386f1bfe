// HeldSlots: whether a word of an extent still leads to the record that it named.
#include "engine_race/index/held_slots.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kHeldKey = 77;
constexpr uint64_t kOtherKey = 78;
constexpr uint32_t kSlot = 5;

// A row that was filled again at birth 9. Slot kSlot is kept, and slots from 100 on are of the run.
SlotTable RefilledTable() {
  SlotTable table(GeometryFrom(TinyLogOptions()));
  const SlotBits path = SlotBits::First(200) - SlotBits::First(100);
  SlotBits held = path;
  held.Add(kSlot);
  table.SetRow(
      0, {.kind = format::RowKind::kUsed, .number = 1000, .path = path, .held = held, .birth = 9});
  return table;
}

TEST(HeldSlotsTest, ARowThatWasNotFilledSinceHoldsItsRecords) {
  const HeldSlots held(RefilledTable());
  EXPECT_TRUE(held.Holds(kSlot, /*births=*/9, kHeldKey));
  EXPECT_TRUE(held.Holds(150, /*births=*/9, kHeldKey));
  EXPECT_FALSE(held.Holds(kSlot + 1, /*births=*/9, kHeldKey)) << "given up";
  EXPECT_FALSE(held.Holds(256, /*births=*/9, kHeldKey)) << "no row";
}

// What it held may have been given up, and another record may be kept there now.
TEST(HeldSlotsTest, InARowThatWasFilledSinceTheKeyTells) {
  const SlotTable table = RefilledTable();
  HeldSlots held(table);
  EXPECT_FALSE(held.Holds(kSlot, /*births=*/8, kHeldKey)) << "its keys were not set";
  HeldSlots::Keys keys{};
  keys[kSlot] = kHeldKey;
  keys[150] = kHeldKey;
  held.SetKeys(0, table.rows()[0].kept(), keys);
  EXPECT_TRUE(held.Holds(kSlot, /*births=*/8, kHeldKey));
  EXPECT_FALSE(held.Holds(kSlot, /*births=*/8, kOtherKey));
  EXPECT_FALSE(held.Holds(150, /*births=*/8, kHeldKey)) << "of the run";
}

}  // namespace
}  // namespace engine_race::test
