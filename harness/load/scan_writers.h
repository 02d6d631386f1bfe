// Scans and snapshots beside writers, in memory: how much each side slows the other.
//
// Every run fills a new store and removes it, unless it fails. The index is built before the time
// begins, also in runs without readers: its upkeep is not a cost of the scan.
#ifndef HARNESS_LOAD_SCAN_WRITERS_H_
#define HARNESS_LOAD_SCAN_WRITERS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// The cost of a Write to its thread.
struct WriterCost {
  double cpu_ns = 0;
  uint64_t p99_ns = 0;
  double writes_per_second = 0;
  // Visits of the scanner in the same time.
  uint64_t visited_count = 0;
};

// The cost of taking and releasing a snapshot: wall time, and the thread's CPU time.
struct SnapshotCost {
  double wall_ns = 0;
  double cpu_ns = 0;
  // Of the writers beside it: shows that they ran.
  double writes_per_second = 0;
};

class ScanWriters {
 public:
  // A store in the new directory `dir` takes `record_count` records at most.
  ScanWriters(std::string dir, uint64_t record_count, uint64_t seed);

  // Random overwrites by this many threads. With `scanning` one more thread scans all keys and
  // values meanwhile.
  Status Overwrite(uint32_t writer_count, bool scanning, WriterCost* cost);
  // Takes `count` snapshots while this many threads write, over as many stores as that needs.
  Status TakeSnapshots(uint32_t writer_count, uint64_t count, SnapshotCost* cost);

 private:
  // Opens a new store, fills it and builds its index. The first write to a bucket grows files,
  // which would delay the writers later.
  Status StartStore(uint32_t writer_count);
  void EndStore();
  // Overwrites drawn ones of the first `key_count` records, `count` times or until *ended is set.
  Status Write(uint64_t key_count, uint64_t count, const std::atomic<bool>& ended, uint32_t thread,
               TimedThread* self);
  // Scans until *left is 0; sets *began when it has begun or failed.
  Status Scan(const std::atomic<uint32_t>& left, std::atomic<bool>* began, uint64_t* visited_count);
  // Takes snapshots until *taken is `wanted` or the writers have ended, and adds their cost.
  Status TakeUntil(const std::atomic<bool>& ended, uint64_t wanted, uint64_t* taken,
                   SnapshotCost* sum);

  const std::string dir_;
  const uint64_t record_count_;
  const uint64_t seed_;
  // Of the records that are written before the measurement.
  const KeySource filled_;
  std::unique_ptr<Store> store_;
  std::atomic<uint64_t> writers_cpu_ns_{0};
  uint64_t run_ = 0;
};

// The longest wait of a fast scan beside slow scans that hold the memory of ranges.
//
// Slow scans begin at different keys and sleep in each visit. The fast scan goes over everything
// again and again. The figure is the longest time between two of its visits.
struct ScanGapShape {
  std::string dir;  // of a new store; the caller removes it
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

#endif  // HARNESS_LOAD_SCAN_WRITERS_H_
