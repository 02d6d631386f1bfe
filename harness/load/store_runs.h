// Timed runs over one store, for benches that compare such runs: Write, Read, MultiRead and Range.
// Values that are read are checked as DrawnReads does.
//
// Not thread-safe; a run starts the threads that it is asked for.
#ifndef HARNESS_LOAD_STORE_RUNS_H_
#define HARNESS_LOAD_STORE_RUNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/load/drawn_reads.h"
#include "harness/load/store_basics.h"

namespace harness {

// Writes every `step`-th record of `keys` with its index as the version. The first failure of the
// store, or kIncomplete when the user interrupts.
engine_race::Status WriteRecords(engine_race::Store* store, const KeySource& keys,
                                 const ValueMaker& values, uint32_t thread_count,
                                 uint64_t step = 1);

class StoreRuns {
 public:
  explicit StoreRuns(const StoreShape& shape)
      : shape_(shape), keys_(shape.keys()), values_(shape.seed) {}

  // Removes the store and its paths.
  void Remove(const engine_race::Options& options);

  // Writes all records to a new store; opening and closing are timed too. `close_seconds` may be
  // null.
  TimedRun Write(const engine_race::Options& options, uint32_t thread_count,
                 double* close_seconds = nullptr);
  // Reads random keys of an existing store. The index is built and memory is touched before the
  // time begins.
  TimedRun Read(const engine_race::Options& options, uint32_t thread_count, double seconds) {
    return WarmReads(options, {thread_count, 0, seconds});
  }
  TimedRun MultiRead(const engine_race::Options& options, uint32_t thread_count,
                     uint32_t keys_per_call, double seconds) {
    return WarmReads(options, {thread_count, keys_per_call, seconds});
  }
  // All threads together range over everything once: a record counts once.
  TimedRun Range(const engine_race::Options& options, uint32_t thread_count) {
    return Ranges(options, thread_count, 1)[0];
  }
  // Ranges `pass_count` times; the threads begin each pass together. Returns one run for each pass.
  std::vector<TimedRun> Ranges(const engine_race::Options& options, uint32_t thread_count,
                               uint32_t pass_count);

  uint64_t KeyAt(uint64_t index) const { return keys_.KeyAt(index); }
  const ValueMaker& values() const { return values_; }
  // The first failure of all runs; empty while there is none.
  const std::string& failure() const { return failure_; }
  engine_race::Status status() const {
    return failure_.empty() ? engine_race::Status::Ok() : engine_race::Status::IOError(failure_);
  }

 private:
  // Reads uniformly, first to warm up, then timed.
  TimedRun WarmReads(const engine_race::Options& options, ReadShape shape);
  // Opens the store, cold except for its index.
  engine_race::Status OpenToRead(const engine_race::Options& options,
                                 std::unique_ptr<DrawnReads>* reads) const;
  // Notes the first failure of a run. The run counts nothing then.
  TimedRun Ended(const char* what, const engine_race::Status& status, const TimedRun& run);

  const StoreShape shape_;
  const KeySource keys_;
  const ValueMaker values_;
  std::string failure_;
};

}  // namespace harness

#endif  // HARNESS_LOAD_STORE_RUNS_H_
