// Scans and snapshots while writers are at work, in memory: what each side takes from the other.
//
// Every run fills a new store and removes it. The store's index is there before the time begins,
// also where nobody reads, so that keeping it up to date is no cost of the scan. One thread at a
// time; a run starts as many as it needs.
#ifndef HARNESS_LOAD_SCAN_WRITERS_H_
#define HARNESS_LOAD_SCAN_WRITERS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/measure/histogram.h"
#include "harness/measure/workers.h"

namespace harness {

// What a Write took of its thread.
struct WriterCost {
  double cpu_ns = 0;
  uint64_t p99_ns = 0;
  double writes_per_second = 0;
  // By the scanner, in the same time.
  uint64_t visited_count = 0;
};

// Of taking a snapshot and giving it back: in all, and of the thread alone.
struct SnapshotCost {
  double wall_ns = 0;
  double cpu_ns = 0;
  // By the writers beside it, which says whether they ran.
  double writes_per_second = 0;
};

class ScanWriters {
 public:
  // A store in the new directory `dir` takes `record_count` records at most.
  ScanWriters(std::string dir, uint64_t record_count, uint64_t seed);
  ~ScanWriters();

  // Overwrites by so many threads, keys by chance; `scanning`: while a thread more walks over all
  // keys and values.
  WriterCost Overwrite(uint32_t writer_count, bool scanning);
  // `count` snapshots while so many threads write, over as many stores as that takes.
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
  // Until *left is 0; says when it has begun.
  uint64_t Scan(const std::atomic<uint32_t>& left, std::atomic<bool>* began);
  // Writes until `count` are written, which sets *ended, or until it is set; how
  // many it were.
  uint64_t WriteUntil(uint32_t thread, uint64_t count, std::atomic<bool>* ended);
  // Takes snapshots until *taken is `wanted` or the writers have ended, and adds what that cost.
  void TakeUntil(const std::atomic<bool>& ended, uint64_t wanted, uint64_t* taken,
                 SnapshotCost* sum);

  const std::string dir_;
  const uint64_t record_count_;
  const uint64_t seed_;
  // What of the records is there before the writers are measured.
  const uint64_t filled_count_;
  std::unique_ptr<engine_race::Store> store_;
  Failures failures_;
  uint64_t run_ = 0;
};

}  // namespace harness

#endif  // HARNESS_LOAD_SCAN_WRITERS_H_
