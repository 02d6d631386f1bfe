// A store that the experiments fill, load in the engine's different ways, and throw away.
//
// One experiment's own; its loads one at a time, for they fill the machine. Values read are checked
// at their ends; a wrong one is an error.
#ifndef HARNESS_EXPERIMENTS_IO_STORE_H_
#define HARNESS_EXPERIMENTS_IO_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/data/value_maker.h"
#include "harness/experiments/io/space.h"
#include "harness/measure/report.h"
#include "harness/measure/timed.h"

namespace harness {

inline constexpr uint32_t kKeysPerCall = 1024;

class IoStore {
 public:
  // The store lies in a directory of `space`, its values on the first `path_count` of the paths
  // (0: beside it). Geometry is chosen so that few records are left in staging.
  IoStore(const IoSpace& space, uint64_t record_count, uint32_t path_count);
  IoStore(const IoStore&) = delete;
  IoStore& operator=(const IoStore&) = delete;
  // Removes the store.
  ~IoStore();

  // Of the next opening.
  engine_race::Options* options() { return &options_; }

  // Makes the store anew with every record in it, closed again; *point is how fast.
  engine_race::Status Fill(TimedPoint* point);
  // Opens it, and has the index built by a first read.
  engine_race::Status Open();
  void Close() { store_.reset(); }
  engine_race::StoreStats stats() const { return store_->Stats(); }

  // So many threads call MultiRead with kKeysPerCall random keys; a request is a key.
  engine_race::Status MultiReads(uint32_t thread_count, double seconds, TimedPoint* point);
  // So many threads call Read, or in `write_percent` of 100 times Write over an existing key. Ends
  // early when it has written as much as Fill.
  engine_race::Status Mix(uint32_t thread_count, uint32_t write_percent, double seconds,
                          TimedPoint* point);
  // One thread ranges over everything, again and again: a request is a record visited.
  engine_race::Status Ranges(double seconds, TimedPoint* point);

 private:
  engine_race::Status MixThread(uint32_t thread, uint32_t write_percent, TimedThread* self);
  engine_race::Status MultiReadThread(uint32_t thread, TimedThread* self);
  engine_race::Status CheckValue(uint64_t key, const std::string& value) const;
  uint64_t KeyAt(uint64_t index) const;
  void RemoveFiles();

  const std::string dir_;
  const uint64_t record_count_;
  const ValueMaker values_{1};
  engine_race::Options options_;
  std::unique_ptr<engine_race::Store> store_;
  // Of a mix: the log grows by every write, and no device may be filled.
  std::atomic<int64_t> writes_left_{0};
};

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_IO_STORE_H_
