// Timed runs over one store, for benches that compare such runs: Write, Read, MultiRead and Range.
// Returned values are checked.
//
// Not thread-safe; a run starts the threads that it is asked for.
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

// The result of a run: `count` is 0 when it failed.
struct TimedRun {
  uint64_t count = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of the whole process
  uint64_t hit_count = 0;  // reads that were answered from hot values

  bool ok() const { return count > 0 && seconds > 0; }
  double rate() const { return ok() ? static_cast<double>(count) / seconds : 0; }
  double cpu_ns() const { return ok() ? cpu_seconds * 1e9 / static_cast<double>(count) : 0; }
};

struct StoreShape {
  std::string dir;  // the store's own
  // The page cache of this directory's file system is dropped before a run; empty: it is not.
  std::string cache_dir;
  uint64_t record_count = 0;
  uint64_t seed = 1;
};

class StoreRuns {
 public:
  explicit StoreRuns(const StoreShape& shape) : shape_(shape), values_(shape.seed) {}

  // Removes the store and its paths.
  void Remove(const engine_race::Options& options);

  // Writes all records to a new store; opening and closing are timed too. `close_seconds` may be
  // null.
  TimedRun Write(const engine_race::Options& options, uint32_t thread_count,
                 double* close_seconds = nullptr);
  // Reads random keys of an existing store. The index is built and memory is touched before the
  // time begins.
  TimedRun Read(const engine_race::Options& options, uint32_t thread_count, double seconds);
  TimedRun MultiRead(const engine_race::Options& options, uint32_t thread_count,
                     uint32_t keys_per_call, double seconds);
  // All threads together range over everything once: a record counts once.
  TimedRun Range(const engine_race::Options& options, uint32_t thread_count) {
    return Ranges(options, thread_count, 1)[0];
  }
  // Ranges `pass_count` times; the threads begin each pass together. Returns one run for each pass.
  std::vector<TimedRun> Ranges(const engine_race::Options& options, uint32_t thread_count,
                               uint32_t pass_count);

  uint64_t KeyAt(uint64_t index) const;
  const ValueMaker& values() const { return values_; }
  // The first failure of all runs; empty while there is none.
  const std::string& failure() const { return failure_; }
  engine_race::Status status() const {
    return failure_.empty() ? engine_race::Status::Ok() : engine_race::Status::IOError(failure_);
  }

 private:
  // Makes one pass; its count is 0 after a failure.
  TimedRun RangeOnce(engine_race::Store* store, uint32_t thread_count);
  // Opens the store, cold except for its index; null after a failure.
  std::unique_ptr<engine_race::Store> OpenToRead(const engine_race::Options& options);
  // Notes the first failure of a run, whose count becomes 0 then.
  TimedRun Ended(TimedRun run, const Failures& failures);
  TimedRun Failed(const std::string& what);
  // Runs read(store, key_at, TimedThread*) in each thread, first to warm up, then timed.
  template <typename ReadFn>
  TimedRun TimedReads(const engine_race::Options& options, uint32_t thread_count, double seconds,
                      const ReadFn& read);

  const StoreShape shape_;
  const ValueMaker values_;
  std::string failure_;
};

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_RUNS_H_
