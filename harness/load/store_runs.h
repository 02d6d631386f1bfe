// Timed runs over one store, for benches that compare such runs: written, read, read many at a
// time, ranged over. Values that come back are looked at.
//
// One thread at a time; a run starts as many threads as it is asked to.
#ifndef HARNESS_LOAD_STORE_RUNS_H_
#define HARNESS_LOAD_STORE_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/workers.h"

namespace harness {

// What a run did: `count` is 0 when it failed.
struct TimedRun {
  uint64_t count = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of the whole process
  uint64_t hit_count = 0;  // reads that hot values in memory answered

  bool ok() const { return count > 0 && seconds > 0; }
  double rate() const { return ok() ? static_cast<double>(count) / seconds : 0; }
  double cpu_ns() const { return ok() ? cpu_seconds * 1e9 / static_cast<double>(count) : 0; }
};

struct StoreShape {
  std::string dir;  // the store's own
  // Whose file system's page cache is dropped before a run; empty: it is left alone.
  std::string cache_dir;
  uint64_t record_count = 0;
  uint64_t seed = 1;
};

class StoreRuns {
 public:
  explicit StoreRuns(const StoreShape& shape) : shape_(shape), values_(shape.seed) {}

  // Removes the store and its paths.
  void Remove(const engine_race::Options& options);

  // A new store, all records, opening and closing included. *close_seconds may be null.
  TimedRun Write(const engine_race::Options& options, uint32_t thread_count,
                 double* close_seconds = nullptr);
  // Keys by chance from a store that is there, its index built and its memory touched before the
  // time begins.
  TimedRun Read(const engine_race::Options& options, uint32_t thread_count, double seconds);
  TimedRun MultiRead(const engine_race::Options& options, uint32_t thread_count,
                     uint32_t keys_per_call, double seconds);
  // Everything, once, by all threads together: a record counts once.
  TimedRun Range(const engine_race::Options& options, uint32_t thread_count) {
    return Ranges(options, thread_count, 1)[0];
  }
  // The same again and again, the threads in step. As many runs as there are passes.
  std::vector<TimedRun> Ranges(const engine_race::Options& options, uint32_t thread_count,
                               uint32_t pass_count);

  uint64_t KeyAt(uint64_t index) const;
  const ValueMaker& values() const { return values_; }
  // The first failure of all runs; empty while there is none.
  const std::string& failure() const { return failure_; }

 private:
  // Of one pass; empty counts after a failure.
  TimedRun RangeOnce(engine_race::Store* store, uint32_t thread_count);
  // The store, cold but for its index; null after a failure.
  std::unique_ptr<engine_race::Store> OpenToRead(const engine_race::Options& options);
  // Notes the first failure of a run, which then counts nothing.
  TimedRun Ended(TimedRun run, const Failures& failures);
  TimedRun Failed(const std::string& what);
  // Runs read(store, key_at, TimedThread*) in each thread, first to warm up.
  template <typename ReadFn>
  TimedRun TimedReads(const engine_race::Options& options, uint32_t thread_count, double seconds,
                      const ReadFn& read);

  const StoreShape shape_;
  const ValueMaker values_;
  std::string failure_;
};

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_RUNS_H_
