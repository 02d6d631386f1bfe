// Timed runs over one store, for benches that compare such runs: Write, Read, MultiRead and Range.
// One value in eight that are read is checked.
#ifndef HARNESS_LOAD_STORE_RUNS_H_
#define HARNESS_LOAD_STORE_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/load/read_loops.h"
#include "harness/load/store_basics.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

// The records of a store, and its place.
struct StoreShape {
  std::string dir;  // the store's own
  // The page cache of this directory's file system is dropped before a run; empty: it is not.
  std::string cache_dir;
  uint64_t record_count = 0;
  uint64_t seed = 1;
  KeyShape key_shape = KeyShape::kUniform;

  KeySource keys() const { return {key_shape, record_count, seed}; }
};

// How a run reads.
struct ReadShape {
  uint32_t thread_count = 1;
  uint32_t keys_per_call = 0;  // of MultiRead; 0: Read, one by one
  double seconds = 1;          // used when `read_count` is 0
  uint64_t read_count = 0;     // of all threads together
};

// The effect of a run on the hot values.
struct FrameCounts {
  uint64_t hit_count = 0;
  uint64_t miss_count = 0;
  uint64_t admission_count = 0;

  double hit_rate() const {
    const uint64_t sum = hit_count + miss_count;
    return sum > 0 ? static_cast<double>(hit_count) / static_cast<double>(sum) : 0;
  }
};
// The effect of what a store did between two readings of its statistics.
FrameCounts FramesBetween(const StoreStats& before, const StoreStats& after);

// A store whose value files other programs can read too: every bucket has a file of its own, which
// is full from its start.

inline constexpr uint32_t kDenseStoreFiles = 32;

inline Options DenseStoreOptions() {
  Options options = QuietOptions();
  options.bucket_count = kDenseStoreFiles;
  options.file_count = kDenseStoreFiles;
  return options;
}

// The names of the value files in the store's directory.
inline std::vector<std::string> DenseStoreFileNames() {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kDenseStoreFiles; ++i) {
    names.push_back((i < 10 ? "value_0" : "value_") + std::to_string(i));
  }
  return names;
}

// The least size of each file: keys fall evenly into buckets, and groups of 32 values are written
// whole.
inline uint64_t DenseStoreFileBytes(uint64_t record_count) {
  const uint64_t records = record_count / kDenseStoreFiles * 9 / 10;
  return std::max<uint64_t>(records / 32 * 32, 1) * kValueSize;
}

// How the functions here write a record: put(key, value).
inline auto PutInto(Store* store) {
  return [store, value_bytes = store->value_bytes()](uint64_t key, const char* value) {
    return store->Write(KeyBytes(key).view(), {value, value_bytes});
  };
}

// Writes every `step`-th record of `keys` by put(key, value) with its index as the version. The
// first failure of `put`, or kIncomplete when the user interrupts.
template <typename Put>
Status WriteRecords(const Put& put, const KeySource& keys, const ValueMaker& values,
                    uint32_t thread_count, TimedPoint* point = nullptr, uint64_t step = 1) {
  const auto write = [&](uint32_t thread, TimedThread* self) {
    const ValueBuffer value = values.MakeBuffer();
    self->Start();
    for (uint64_t turn = 0; turn % kReadsPerClockLook != 0 || self->Running(); ++turn) {
      const uint64_t index = (turn * thread_count + thread) * step;
      if (index >= keys.record_count()) break;
      const uint64_t key = keys.KeyAt(index);
      values.Fill(key, index, value.get());
      ENGINE_RACE_RETURN_IF_ERROR(put(key, value.get()));
      ++self->tally.request_count;
      self->tally.byte_count += values.value_bytes();
    }
    return Status::Ok();
  };
  return RunTimed(thread_count, kNoLimitSeconds, write, point);
}

class StoreRuns {
 public:
  explicit StoreRuns(const StoreShape& shape)
      : shape_(shape), keys_(shape.keys()), values_(shape.seed) {}

  // Runs of a store that stays open: values that became hot are still hot in the next run.

  // Opens the store anew and builds its index. The destructor closes it.
  Status Open(const Options& options);
  void Close() { store_.reset(); }
  Store* store() { return store_.get(); }
  // Reads records as `draw` selects them; `seed` selects the stream of draws. *frames, if given,
  // gets the run's effect on the hot values.
  Status ReadDrawn(const RecordDraw& draw, const ReadShape& shape, uint64_t seed, TimedPoint* point,
                   FrameCounts* frames = nullptr);
  // Reads every record once, in an order that is not that of keys, by MultiRead.
  Status ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call);
  // Every thread counts all records by one Range. A record counts once in *point.
  Status RangeOnce(uint32_t thread_count, TimedPoint* point);

  // Runs that open a store and close it.

  // Removes the store, which it closes, and its paths.
  void Remove(const Options& options);

  // Writes all records to a new store; opening and closing are timed too. `close_seconds` may be
  // null.
  TimedPoint Write(const Options& options, uint32_t thread_count, double* close_seconds = nullptr);
  // Writes them where the time does not matter.
  Status Fill(const Options& options, uint32_t thread_count) {
    Write(options, thread_count);
    return status();
  }
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
  Status OpenCold(const Options& options);
  // Notes the first failure of a run. The run counts nothing then.
  TimedPoint Ended(const char* what, const Status& status, const TimedPoint& run);

  const StoreShape shape_;
  const KeySource keys_;
  const ValueMaker values_;
  std::unique_ptr<Store> store_;
  std::string failure_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_STORE_RUNS_H_
