#include "engine_race/l1/epoch.h"

#include <algorithm>
#include <thread>

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

EpochManager::Slot* EpochManager::EnterElsewhere(uint32_t first) {
  for (uint32_t i = first + 1;; ++i) {
    Slot* const slot = &slots_[i % kSlots];
    // Acquire: see Enter.
    if (TryEnter(slot, now_.load(std::memory_order_acquire))) return slot;
    // All are taken: whoever is inside may need this processor to leave.
    if (i % kSlots == first % kSlots) std::this_thread::yield();
  }
}

EpochManager::Counts EpochManager::TakeCounts() const {
  Counts counts;
  for (uint32_t i = 0; i < kSlots; ++i) {
    // Relaxed: a statistic.
    counts.hits += slots_[i].hits.load(std::memory_order_relaxed);
    counts.misses += slots_[i].misses.load(std::memory_order_relaxed);
  }
  return counts;
}

uint64_t EpochManager::SafeBelow() const {
  uint64_t oldest = now_.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < kSlots; ++i) {
    // Sequentially consistent for the readers that entered: see TryEnter. Also an acquire, for
    // those that left: pairs with Guard's release.
    const uint64_t entered = slots_[i].entered.load(std::memory_order_seq_cst);
    if (entered != kOutside) oldest = std::min(oldest, entered);
  }
  return oldest;
}

}  // namespace engine_race::l1
