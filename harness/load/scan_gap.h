// The longest wait of a fast scan beside slow scans that hold the memory of ranges.
//
// Slow scans begin at different keys and sleep in each visit. The fast scan goes over everything
// again and again. The figure is the longest time between two of its visits. Not thread-safe; a run
// starts the threads that it needs.
#ifndef HARNESS_LOAD_SCAN_GAP_H_
#define HARNESS_LOAD_SCAN_GAP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

struct ScanGapShape {
  std::string dir;  // of a new store
  uint32_t bucket_count = 64;
  uint64_t record_count = 64 * 850;
  double warm_up_seconds = 1;  // in which only the slow scans run
  double seconds = 2;          // of the fast one
  uint64_t seed = 1;
};

// The slow scans, and the memory budget of the store.
struct SlowScans {
  uint64_t memory_budget_bytes = 128 * 1024 * 1024;
  uint32_t count = 32;
  std::chrono::milliseconds visit{10};

  // "32 visits of 10 ms, 128 MiB"
  std::string ToString() const;
};

struct FastScan {
  uint64_t longest_gap_ns = 0;
  double records_per_second = 0;
  double slow_visits_per_second = 0;  // of one slow scan

  double longest_gap_ms() const { return static_cast<double>(longest_gap_ns) * 1e-6; }
};

class ScanGap {
 public:
  explicit ScanGap(const ScanGapShape& shape) : shape_(shape) {}
  ~ScanGap();

  // Writes the store; must come first.
  Status Prepare();
  // Opens the store and runs the fast scan: alone, or beside the slow scans, which begin first.
  Status Run(const SlowScans& slow, bool alone, FastScan* fast);

 private:
  Status Open(uint64_t memory_budget_bytes);
  Status ScanSlowly(const SlowScans& slow, uint32_t number, TimedThread* self,
                    const std::atomic<bool>& stop, std::atomic<uint64_t>* visits);
  Status ScanFast(FastScan* fast);

  const ScanGapShape shape_;
  std::unique_ptr<Store> store_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_SCAN_GAP_H_
