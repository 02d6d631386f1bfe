#include "engine_race/l1/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <mutex>
#include <thread>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

namespace {

#ifdef __SANITIZE_THREAD__
// Knows nothing of fences that run elsewhere.
bool CanFenceAll() { return false; }
#else
bool CanFenceAll() {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#endif

// Runs a full fence on every processor that runs a thread of this process.
bool FenceAll() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; }

// Which numbers threads have. Of the process, like the threads.
constexpr uint32_t kNumbers = 4096;
constinit std::mutex numbers_mutex;
constinit std::bitset<kNumbers> numbers;

}  // namespace

constinit thread_local uint32_t EpochManager::thread_number = kNoNumber;

EpochManager::EpochManager()
    : slots_(std::make_unique<Slot[]>(kSlots)),
      owned_slot_count_(CanFenceAll() ? kOwnedSlots : 0) {}

uint32_t EpochManager::NumberThread() {
  struct Number {
    ~Number() { ForgetThread(); }
  };
  static thread_local Number until_the_thread_ends;
  const std::lock_guard lock(numbers_mutex);
  uint32_t number = 0;
  while (number + 1 < kNumbers && numbers[number]) ++number;
  numbers[number] = true;
  // The last one is of all who find no other, and of threads about to end.
  thread_number = number;
  return number;
}

void EpochManager::ForgetThread() {
  const std::lock_guard lock(numbers_mutex);
  if (thread_number + 1 < kNumbers) numbers[thread_number] = false;
  thread_number = kNumbers - 1;
}

EpochManager::Slot* EpochManager::EnterShared(uint32_t number) {
  const uint32_t count = kSlots - owned_slot_count_;
  for (uint32_t i = number;; ++i) {
    Slot* const slot = &slots_[owned_slot_count_ + i % count];
    // Acquire: see Enter.
    if (TryEnter(slot, now_.load(std::memory_order_acquire))) return slot;
    // All are taken: whoever is inside may need this processor to leave.
    if ((i + 1) % count == number % count) std::this_thread::yield();
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
  // Who has entered and is not seen below loads what it looks at behind this, and finds all that
  // was retired gone. Without it nothing is known.
  if (owned_slot_count_ != 0 && !FenceAll()) return 0;
  for (uint32_t i = 0; i < kSlots; ++i) {
    // Sequentially consistent for the readers that entered: see TryEnter and Enter. Also an
    // acquire, for those that left: pairs with Guard's release.
    const uint64_t entered = slots_[i].entered.load(std::memory_order_seq_cst);
    if (entered != kOutside) oldest = std::min(oldest, entered);
  }
  ENGINE_RACE_ASSERT(oldest != kOutside);
  return oldest;
}

}  // namespace engine_race::l1
