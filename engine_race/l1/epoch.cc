#include "engine_race/l1/epoch.h"

#include <algorithm>

namespace engine_race::l1 {

namespace {

std::atomic<uint32_t> thread_count{0};
// Of the thread alone, whatever the number of stores.
constinit thread_local uint32_t thread_number = 0;

}  // namespace

EpochManager::EpochManager() : slots_(std::make_unique<Slot[]>(kSlots)) {}

uint32_t EpochManager::Hint() {
  // Relaxed: only the numbers matter.
  if (thread_number == 0) thread_number = thread_count.fetch_add(1, std::memory_order_relaxed) + 1;
  return thread_number;
}

uint64_t EpochManager::SafeBelow() const {
  uint64_t oldest = now_.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < kSlots; ++i) {
    // Sequentially consistent for the readers that entered: see Enter. Also an acquire, for those
    // that left: pairs with Guard's release.
    const uint64_t entered = slots_[i].entered.load(std::memory_order_seq_cst);
    if (entered != kOutside) oldest = std::min(oldest, entered);
  }
  return oldest;
}

}  // namespace engine_race::l1
