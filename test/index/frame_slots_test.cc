#include "engine_race/index/frame_slots.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "test/test_util.h"

namespace engine_race {
namespace {

constexpr uint32_t kFrame = 2;
constexpr uint32_t kSlot = 17;
constexpr uint32_t kOthersSlot = 99;

TEST(FrameSlotsTest, GivesTheNotedSlotAndKeepsTheRest) {
  std::vector<std::atomic<uint32_t>> slots(4);
  FrameSlots frames;
  frames.set_slots(slots.data());
  const ValueRef ref(kSlot, 0x1234, false);
  RefWord word;
  word.Store(ref);
  EXPECT_EQ(frames.SlotOf(word), ref);
  slots[kFrame] = kSlot;
  ValueRef seen = ref;
  ASSERT_TRUE(word.Exchange(&seen, ref.InFrame(kFrame)));
  EXPECT_EQ(frames.SlotOf(word), ref);
  word.Store(word.Load().Cooling());
  EXPECT_EQ(frames.SlotOf(word), ref) << "without the mark";
}

TEST(FrameSlotsTest, AWordIsExchangedOnlyForWhatItWas) {
  const ValueRef ref(kSlot, 0x1234, false);
  RefWord word;
  word.Store(ref);
  ValueRef seen(kOthersSlot, 0x1234, false);
  EXPECT_FALSE(word.Exchange(&seen, ref.InFrame(kFrame)));
  EXPECT_EQ(seen, ref);
  EXPECT_EQ(word.Load(), ref);
  EXPECT_TRUE(word.Exchange(&seen, ref.InFrame(kFrame)));
  EXPECT_EQ(word.Load().frame(), kFrame);
}

// The frame comes and goes as fast as can be, and holds another record's value in between.
TEST(FrameSlotsTest, ASlotIsTheRecordsOwnWhateverBecomesOfTheFrame) {
  std::vector<std::atomic<uint32_t>> slots(4);
  FrameSlots frames;
  frames.set_slots(slots.data());
  const ValueRef ref(kSlot, 0x1234, false);
  RefWord word;
  word.Store(ref);
  std::atomic<bool> done{false};
  std::thread mover([&] {
    // Release, both: as whoever notes slots has to.
    while (!done.load(std::memory_order_relaxed)) {
      slots[kFrame].store(kSlot, std::memory_order_release);
      ValueRef seen = ref;
      EXPECT_TRUE(word.Exchange(&seen, ref.InFrame(kFrame)));
      seen = ref.InFrame(kFrame);
      EXPECT_TRUE(word.Exchange(&seen, ref));
      frames.CountUnswizzle();
      slots[kFrame].store(kOthersSlot, std::memory_order_release);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < test::Sized(4000000, 400000); ++i) wrong += frames.SlotOf(word) != ref;
  done.store(true, std::memory_order_relaxed);
  mover.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace engine_race
