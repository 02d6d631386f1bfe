// How long a fast scan waits beside slow ones that hold the memory of ranges.
//
// Slow scans begin at different keys and sleep in each visit. The fast one goes over everything
// again and again; what counts is the longest time in which it makes no visit. One thread at a
// time; a run starts as many as it needs.
#ifndef HARNESS_LOAD_SCAN_GAP_H_
#define HARNESS_LOAD_SCAN_GAP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/measure/workers.h"

namespace harness {

struct ScanGapShape {
  std::string dir;  // of a new store
  uint32_t bucket_count = 64;
  uint64_t record_count = 64 * 850;
  double warm_up_seconds = 1;  // of the slow scans by themselves
  double seconds = 2;          // of the fast one
  uint64_t seed = 1;
};

// Slow scans, and the memory budget of the store that all scans are of.
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

  // Writes the store; must come first. False after a failure, here and below: failure() tells it.
  bool Prepare();
  // The fast scan in an opening of its own: alone, or beside the slow ones, which began before.
  bool Run(const SlowScans& slow, bool alone, FastScan* fast);

  std::string failure() const { return failures_.first(); }

 private:
  bool Open(uint64_t memory_budget_bytes);
  void ScanSlowly(const SlowScans& slow, uint32_t number, const std::atomic<bool>& stop,
                  std::atomic<uint64_t>* visits);
  void ScanFast(FastScan* fast);

  const ScanGapShape shape_;
  std::unique_ptr<engine_race::Store> store_;
  Failures failures_;
};

}  // namespace harness

#endif  // HARNESS_LOAD_SCAN_GAP_H_
