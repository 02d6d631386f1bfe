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

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/load/drawn_reads.h"
#include "harness/load/read_loops.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// How the functions here write a record: put(key, value), with kValueSize bytes.
inline auto PutInto(Store* store) {
  return [store](uint64_t key, const char* value) {
    return store->Write(KeyBytes(key).view(), {value, kValueSize});
  };
}

// Writes every `step`-th record of `keys` by put(key, value) with its index as the version. The
// first failure of `put`, or kIncomplete when the user interrupts.
template <typename Put>
Status WriteRecords(const Put& put, const KeySource& keys, const ValueMaker& values,
                    uint32_t thread_count, TimedPoint* point, uint64_t step = 1) {
  const auto write = [&](uint32_t thread, TimedThread* self) {
    alignas(64) char value[kValueSize];
    self->Start();
    for (uint64_t turn = 0; turn % kReadsPerClockLook != 0 || self->Running(); ++turn) {
      const uint64_t index = (turn * thread_count + thread) * step;
      if (index >= keys.record_count()) break;
      const uint64_t key = keys.KeyAt(index);
      values.Fill(key, index, value);
      ENGINE_RACE_RETURN_IF_ERROR(put(key, value));
      ++self->tally.request_count;
      self->tally.byte_count += kValueSize;
    }
    return Status::Ok();
  };
  return RunTimed(thread_count, kNoLimitSeconds, write, point);
}

class StoreRuns {
 public:
  explicit StoreRuns(const StoreShape& shape)
      : shape_(shape), keys_(shape.keys()), values_(shape.seed) {}

  // Removes the store and its paths.
  void Remove(const Options& options);

  // Writes all records to a new store; opening and closing are timed too. `close_seconds` may be
  // null.
  TimedPoint Write(const Options& options, uint32_t thread_count, double* close_seconds = nullptr);
  // Reads random keys of an existing store. The index is built and memory is touched before the
  // time begins.
  TimedPoint Read(const Options& options, uint32_t thread_count, double seconds) {
    return WarmReads(options, {thread_count, 0, seconds});
  }
  TimedPoint MultiRead(const Options& options, uint32_t thread_count, uint32_t keys_per_call,
                       double seconds, FrameCounts* frames = nullptr) {
    return WarmReads(options, {thread_count, keys_per_call, seconds}, frames);
  }
  // All threads together range over everything once: a record counts once.
  TimedPoint Range(const Options& options, uint32_t thread_count) {
    return Ranges(options, thread_count, 1)[0];
  }
  // Ranges `pass_count` times; the threads begin each pass together. Returns one run for each pass.
  std::vector<TimedPoint> Ranges(const Options& options, uint32_t thread_count,
                                 uint32_t pass_count);

  uint64_t KeyAt(uint64_t index) const { return keys_.KeyAt(index); }
  const ValueMaker& values() const { return values_; }
  // The first failure of all runs; empty while there is none.
  const std::string& failure() const { return failure_; }
  Status status() const { return failure_.empty() ? Status::Ok() : Status::IOError(failure_); }

 private:
  // Reads uniformly, first to warm up, then timed.
  TimedPoint WarmReads(const Options& options, ReadShape shape, FrameCounts* frames = nullptr);
  // Opens the store, cold except for its index.
  Status OpenToRead(const Options& options, std::unique_ptr<DrawnReads>* reads) const;
  // Notes the first failure of a run. The run counts nothing then.
  TimedPoint Ended(const char* what, const Status& status, const TimedPoint& run);

  const StoreShape shape_;
  const KeySource keys_;
  const ValueMaker values_;
  std::string failure_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_STORE_RUNS_H_
