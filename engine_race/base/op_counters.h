// Counts the calls of a store, so that a call pays for it with one load and one store.
//
// Each of the first threads of the process counts in cache lines of its own, and the others share
// lines. A sum of all lines misses nothing that happened before it, and lets later counts in.
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_BASE_OP_COUNTERS_H_
#define ENGINE_RACE_BASE_OP_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine_race/base/status.h"
#include "engine_race/base/thread_number.h"

namespace engine_race {

// Calls that succeeded. Found and absent reads are counted apart: a count of found reads that is a
// difference of two samples could fall.
enum class OpCounter : uint8_t {
  kReadsFound,  // Read and ReadInto, of snapshots too
  kReadsNotFound,
  kMultiReads,          // calls
  kMultiReadKeysFound,  // keys of those calls
  kMultiReadKeysNotFound,
  kAsyncReadsFound,
  kAsyncReadsNotFound,
  kWrites,
  kDeletes,
  kRanges,
  kSnapshots,
  kIterators,
  kSyncs,
};
inline constexpr size_t kOpCounterCount = static_cast<size_t>(OpCounter::kSyncs) + 1;

class OpCounters {
  static constexpr uint32_t kOwnedLineCount = 192;
  static constexpr uint32_t kSharedLineCount = 64;
  struct alignas(64) Line {
    std::array<std::atomic<uint64_t>, kOpCounterCount> counts = {};
  };

 public:
  OpCounters() : lines_(std::make_unique<Line[]>(kOwnedLineCount + kSharedLineCount)) {}

  void Add(OpCounter counter, uint64_t n = 1) {
    const uint32_t number = ThreadNumber();
    if (number >= kOwnedLineCount) [[unlikely]] {
      std::atomic<uint64_t>& count = CountOf(kOwnedLineCount + number % kSharedLineCount, counter);
      // Relaxed, here and below: a statistic.
      count.fetch_add(n, std::memory_order_relaxed);
      return;
    }
    // No other thread counts in this line.
    std::atomic<uint64_t>& count = CountOf(number, counter);
    count.store(count.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  // Failures are rare, so all threads share their counts.
  void AddError(Code code) {
    errors_[static_cast<size_t>(code)].fetch_add(1, std::memory_order_relaxed);
  }

  uint64_t Sum(OpCounter counter) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kOwnedLineCount + kSharedLineCount; ++i) {
      sum += CountOf(i, counter).load(std::memory_order_relaxed);
    }
    return sum;
  }
  uint64_t Errors(Code code) const {
    return errors_[static_cast<size_t>(code)].load(std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t>& CountOf(uint32_t line, OpCounter counter) const {
    return lines_[line].counts[static_cast<size_t>(counter)];
  }

  const std::unique_ptr<Line[]> lines_;
  // In cache lines of their own: failures would otherwise slow down every call, which reads lines_.
  alignas(64) std::array<std::atomic<uint64_t>, kCodeCount> errors_ = {};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_OP_COUNTERS_H_
