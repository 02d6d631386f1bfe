// How long scans wait: in which order they began to, and when one that waits for memory insists.
//
// A scan may have to wait for memory that holds chunks which scans behind it will want. Those scans
// may only be waiting for a processor, so it leaves them their chunks for a while. It insists when
// kTime has passed, or kChunks chunks have been loaded, since it began to wait.
//
// Guarded by the coordinator's mutex, but for longest_wait_chunks. Time is passed in, so that it
// can be tested without any. Invariant: only scans that wait have an insist_time.
#ifndef ENGINE_RACE_SCAN_SCAN_WAITS_H_
#define ENGINE_RACE_SCAN_SCAN_WAITS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "engine_race/scan/scanner.h"

namespace engine_race {

class ScanWaits {
 public:
  using Clock = std::chrono::steady_clock;
  using Scanners = std::span<Scanner* const>;

  static constexpr uint64_t kChunks = 64;
  // Many turns of some dozens of busy threads.
  static constexpr std::chrono::milliseconds kTime{100};

  // Another chunk has been loaded.
  void CountLoad() { ++load_count_; }

  // The scan waits from now on. Those that began before it come first.
  void Begin(Scanner* scanner);
  void End(Scanner* scanner);

  // Whether some scan that waits for `key` has waited long enough for those behind it. The first
  // call since it began to wait starts its time.
  bool IsPatienceOver(Scanners scanners, uint64_t key, Clock::time_point now);
  // Has all that wait insist.
  void InsistAll(Scanners scanners);
  // When the next scan's patience ends; the clock's epoch when that of none does by time.
  Clock::time_point NextInsistTime(Scanners scanners) const;

  // The most chunks that were loaded while a scan waited. From any thread.
  uint64_t longest_wait_chunks() const {
    // Relaxed: a statistic.
    return longest_wait_chunks_.load(std::memory_order_relaxed);
  }

 private:
  uint64_t ChunksWaited(const Scanner& scanner) const;

  uint64_t wait_count_ = 0;
  uint64_t load_count_ = 0;
  std::atomic<uint64_t> longest_wait_chunks_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_SCAN_WAITS_H_
