#include "engine_race/l1/epoch.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "engine_race/base/assert.h"

namespace engine_race::l1 {

namespace {

long Membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0); }

#ifdef __SANITIZE_THREAD__
// ThreadSanitizer does not know that membarrier runs fences on other processors.
bool CanFenceAll() { return false; }
#else
bool CanFenceAll() {
  const long commands = Membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0;
}
#endif

// Runs a full fence on every processor that runs a thread of this process. Refused until the
// process is registered.
bool FenceAll() { return Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0; }

}  // namespace

EpochManager::EpochManager()
    : lines_(std::make_unique<ReaderLine[]>(kLineCount)),
      first_shared_line_(CanFenceAll() ? kOwnedLineCount : 0) {
  // Another manager may have registered the process. Relaxed: no other thread knows this one yet.
  if (first_shared_line_.load(std::memory_order_relaxed) == 0 || !FenceAll()) return;
  owned_line_count_.store(kOwnedLineCount, std::memory_order_relaxed);
  shared_entry_count_.store(kEntriesBeforeFences, std::memory_order_relaxed);
}

void EpochManager::RegisterForFences() {
  if (Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0 || !FenceAll()) {
    // No thread will ever have a line of its own.
    first_shared_line_.store(0, std::memory_order_relaxed);
    return;
  }
  // Acquire: pairs with SafeBelow, which has run no fence if it has come before. Release: pairs
  // with the load in Enter.
  owned_line_count_.exchange(kOwnedLineCount, std::memory_order_acq_rel);
}

EpochManager::ReaderLine* EpochManager::EnterShared(uint32_t number) {
  if (first_shared_line_.load(std::memory_order_relaxed) != 0 &&
      shared_entry_count_.load(std::memory_order_relaxed) < kEntriesBeforeFences &&
      shared_entry_count_.fetch_add(1, std::memory_order_relaxed) + 1 == kEntriesBeforeFences) {
    RegisterForFences();
  }
  const uint32_t first = first_shared_line_.load(std::memory_order_relaxed);
  const uint32_t count = kLineCount - first;
  for (uint32_t i = number;; ++i) {
    ReaderLine* const line = &lines_[first + i % count];
    // Acquire: see Enter.
    if (TryEnter(line, now_.load(std::memory_order_acquire))) return line;
    // All lines are taken: a reader that is inside may need this processor to leave.
    if ((i + 1) % count == number % count) std::this_thread::yield();
  }
}

EpochManager::Counts EpochManager::TakeCounts() const {
  Counts counts;
  for (uint32_t i = 0; i < kLineCount; ++i) {
    // Relaxed: a statistic.
    counts.value_hits += lines_[i].value_hits.load(std::memory_order_relaxed);
    counts.value_misses += lines_[i].value_misses.load(std::memory_order_relaxed);
    counts.block_hits += lines_[i].block_hits.load(std::memory_order_relaxed);
    counts.block_misses += lines_[i].block_misses.load(std::memory_order_relaxed);
  }
  return counts;
}

uint64_t EpochManager::SafeBelow() const {
  uint64_t oldest = now_.load(std::memory_order_seq_cst);
  // A reader that has entered and is not seen below loads behind this fence, and finds all that was
  // retired gone. If the fence is refused, nothing is known. Without owned lines no fence is
  // needed.
  //
  // fetch_add and not a load: it is ordered with the exchange in RegisterForFences. If the exchange
  // came first, this call runs the fence. If it comes later, a reader of an owned line finds gone
  // what was retired before this call.
  if (owned_line_count_.fetch_add(0, std::memory_order_acq_rel) != 0 && !FenceAll()) return 0;
  for (uint32_t i = 0; i < kLineCount; ++i) {
    // Sequentially consistent: for readers that are inside, see TryEnter and Enter. Also acquire:
    // for readers that have left, pairs with the release of Guard.
    const uint64_t entered = lines_[i].entered.load(std::memory_order_seq_cst);
    if (entered != kOutside) oldest = std::min(oldest, entered);
  }
  ENGINE_RACE_ASSERT(oldest != kOutside);
  return oldest;
}

}  // namespace engine_race::l1
