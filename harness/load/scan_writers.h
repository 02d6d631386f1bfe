// Scans and snapshots beside writers, in memory: how much each side slows the other.
//
// Every run fills a new store and removes it. The index is built before the time begins, also in
// runs without readers: its upkeep is not a cost of the scan.
//
// Not thread-safe; a run starts the threads that it needs.
#ifndef HARNESS_LOAD_SCAN_WRITERS_H_
#define HARNESS_LOAD_SCAN_WRITERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/store.h"
#include "harness/measure/workers.h"

namespace harness {

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
  ~ScanWriters();

  // Random overwrites by this many threads. With `scanning` one more thread scans all keys and
  // values meanwhile.
  WriterCost Overwrite(uint32_t writer_count, bool scanning);
  // Takes `count` snapshots while this many threads write, over as many stores as that needs.
  SnapshotCost TakeSnapshots(uint32_t writer_count, uint64_t count);

  // The first failure of all runs; empty while there is none.
  std::string failure() const { return failures_.first(); }

 private:
  struct WriterSums;

  bool StartStore();
  void EndStore();
  uint64_t KeyAt(uint64_t index) const;
  void Fill(uint32_t thread, uint32_t thread_count);
  void OverwriteSome(uint32_t thread, uint64_t count, WriterSums* sums);
  // Scans until *left is 0; sets *began when it has begun.
  uint64_t Scan(const std::atomic<uint32_t>& left, std::atomic<bool>* began);
  // Writes until *ended is set, and sets it after `count` writes. Returns the number of writes.
  uint64_t WriteUntil(uint32_t thread, uint64_t count, std::atomic<bool>* ended);
  // Takes snapshots until *taken is `wanted` or the writers have ended, and adds their cost.
  void TakeUntil(const std::atomic<bool>& ended, uint64_t wanted, uint64_t* taken,
                 SnapshotCost* sum);

  const std::string dir_;
  const uint64_t record_count_;
  const uint64_t seed_;
  // The number of records that are written before the measurement.
  const uint64_t filled_count_;
  std::unique_ptr<engine_race::Store> store_;
  Failures failures_;
  uint64_t run_ = 0;
};

}  // namespace harness

#endif  // HARNESS_LOAD_SCAN_WRITERS_H_
