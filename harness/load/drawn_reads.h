// Timed reads of a store that stays open: values that became hot are still hot in the next run.
//
// One value in eight is checked. Not thread-safe; a run starts the threads that it is asked for.
#ifndef HARNESS_LOAD_DRAWN_READS_H_
#define HARNESS_LOAD_DRAWN_READS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/record_draw.h"
#include "harness/data/value_maker.h"
#include "harness/measure/timed.h"

namespace engine_race::harness {

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

class DrawnReads {
 public:
  // Opens the store of `shape` and builds its index. The destructor closes it.
  static Status Open(const StoreShape& shape, const Options& options,
                     std::unique_ptr<DrawnReads>* reads);

  // `seed` selects the stream of draws. *frames, if given, gets the run's effect on the hot values.
  Status Run(const RecordDraw& draw, const ReadShape& shape, uint64_t seed, TimedPoint* point,
             FrameCounts* frames = nullptr);
  // Reads every record once, in an order that is not that of keys, by MultiRead.
  Status ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call);
  // Every thread counts all records by one Range. A record counts once in *point.
  Status RangeOnce(uint32_t thread_count, TimedPoint* point);

  Store* store() { return store_.get(); }
  uint64_t KeyAt(uint64_t index) const { return keys_.KeyAt(index); }

 private:
  explicit DrawnReads(const StoreShape& shape) : keys_(shape.keys()), values_(shape.seed) {}

  const KeySource keys_;
  const ValueMaker values_;
  std::unique_ptr<Store> store_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_LOAD_DRAWN_READS_H_
