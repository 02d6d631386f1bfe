// A store that an experiment fills, loads in the engine's different ways, and removes.
//
// It belongs to one experiment. One load runs at a time, because it uses the whole machine. A wrong
// value is an error, see DrawnReads; a mix checks both ends of each value.
#ifndef HARNESS_EXPERIMENTS_IO_STORE_H_
#define HARNESS_EXPERIMENTS_IO_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/store.h"
#include "harness/experiments/io/space.h"
#include "harness/load/store_runs.h"
#include "harness/measure/report.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

inline constexpr uint32_t kKeysPerCall = 1024;

class IoStore {
 public:
  // The store lies in a directory of `space`, its values on the first `path_count` of the paths (0:
  // beside it). The geometry is such that few records stay in staging.
  IoStore(const IoSpace& space, uint64_t record_count, uint32_t path_count);
  IoStore(const IoStore&) = delete;
  IoStore& operator=(const IoStore&) = delete;
  // Removes the store.
  ~IoStore();

  // The options of the next opening.
  Options* options() { return &options_; }

  // Makes the store anew with all records and closes it; *point has the rate.
  Status Fill(TimedPoint* point);
  // Opens the store and builds the index.
  Status Open();
  StoreStats stats() const { return reads_->store()->Stats(); }

  // This many threads call MultiRead with kKeysPerCall random keys; a request is a key.
  Status MultiReads(uint32_t thread_count, double seconds, TimedPoint* point);
  // This many threads call Read, or, for `write_percent` of 100 calls, Write over an existing key.
  // Ends early when it has written as much as Fill.
  Status Mix(uint32_t thread_count, uint32_t write_percent, double seconds, TimedPoint* point);
  // One thread ranges over everything, again and again; a request is a visited record.
  Status Ranges(double seconds, TimedPoint* point);

 private:
  Status MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self);

  const StoreShape shape_;
  StoreRuns runs_;
  Options options_;
  std::unique_ptr<DrawnReads> reads_;  // of the open store
  // The writes that a mix may still make: the log grows by every write, and must not fill the
  // device.
  std::atomic<int64_t> writes_left_{0};
};

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_STORE_H_
