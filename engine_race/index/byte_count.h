// Counts the memory of the runs, deltas and rows of all buckets of an index. The count changes when
// a part is installed, merged or split, and when a delta grows. That happens once in many writes,
// so one counter serves all buckets.
#ifndef ENGINE_RACE_INDEX_BYTE_COUNT_H_
#define ENGINE_RACE_INDEX_BYTE_COUNT_H_

#include <atomic>
#include <cstdint>

namespace engine_race {

class ByteCount {
 public:
  // Counts something that took `before` bytes and takes `now` bytes from here on.
  void Change(uint64_t now, uint64_t before) noexcept {
    // Relaxed: the count orders nothing. The difference wraps around when it is negative.
    bytes_.fetch_add(now - before, std::memory_order_relaxed);
  }
  uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BYTE_COUNT_H_
