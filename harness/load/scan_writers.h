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
  ~ScanWriters();

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

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_SCAN_WRITERS_H_
