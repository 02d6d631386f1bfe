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

// While a slot is looked up, the frame is evicted, used for another record, and used again for the
// first one.
TEST(FrameSlotsTest, AFrameThatIsUsedAgainDuringALookIsLookedAtAgain) {
  const ValueRef ref(kSlot, 0x1234, false);
  for (const bool comes_back : {false, true}) {
    SCOPED_TRACE(comes_back);
    FrameSlots frames;
    RefWord word;
    word.Store(ref.InFrame(kFrame));
    int looks = 0;
    const ValueRef found = frames.SettledSlotOf(word, [&](uint32_t frame) {
      EXPECT_EQ(frame, kFrame);
      if (++looks > 1) return kSlot;
      word.Store(ref);
      frames.CountUnswizzle();
      if (comes_back) word.Store(ref.InFrame(kFrame));
      return kOthersSlot;
    });
    EXPECT_EQ(found, ref);
    EXPECT_EQ(looks, comes_back ? 2 : 1);
  }
}

// The frame is evicted and used again as fast as possible, for another record in between.
TEST(FrameSlotsTest, ASlotIsTheRecordsOwnWhateverBecomesOfTheFrame) {
  std::vector<std::atomic<uint32_t>> slots(4);
  FrameSlots frames;
  frames.set_slots(slots.data());
  const ValueRef ref(kSlot, 0x1234, false);
  RefWord word;
  word.Store(ref);
  std::atomic<bool> done{false};
  std::thread mover([&] {
    for (uint64_t i = 0; i < test::Sized(1000000, 50000); ++i) {
      // Release, both: as SetFrameSlots demands.
      slots[kFrame].store(kSlot, std::memory_order_release);
      ValueRef seen = ref;
      EXPECT_TRUE(word.Exchange(&seen, ref.InFrame(kFrame)));
      seen = ref.InFrame(kFrame);
      EXPECT_TRUE(word.Exchange(&seen, ref));
      frames.CountUnswizzle();
      slots[kFrame].store(kOthersSlot, std::memory_order_release);
    }
    done.store(true, std::memory_order_release);
  });
  uint64_t wrong = 0;
  while (!done.load(std::memory_order_acquire)) wrong += !(frames.SlotOf(word) == ref);
  mover.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace engine_race
