// Counts the tombstones in the delta of a part that walks over keys have stepped over.
//
// A merge copies the records of the part, and drops the tombstones. When walks have stepped over as
// many tombstones as that, the merge costs no more than they have.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_INDEX_CROSSED_TOMBSTONES_H_
#define ENGINE_RACE_INDEX_CROSSED_TOMBSTONES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace engine_race {

class CrossedTombstones {
 public:
  // Adds `count`. True when a merge of `record_count` records has become worth it, once for each
  // time that it becomes so again.
  bool Add(uint32_t count, size_t record_count) const noexcept {
    // Relaxed, here and below: a hint.
    const uint32_t before = count_.fetch_add(count, std::memory_order_relaxed);
    const uint64_t enough = EnoughFor(record_count);
    return before / enough != (uint64_t{before} + count) / enough;
  }
  bool is_enough(size_t record_count) const noexcept {
    return count_.load(std::memory_order_relaxed) >= EnoughFor(record_count);
  }
  void Reset() noexcept { count_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kFewest = 64;
  static uint64_t EnoughFor(size_t record_count) {
    return std::max<uint64_t>(record_count, kFewest);
  }

  mutable std::atomic<uint32_t> count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_CROSSED_TOMBSTONES_H_
