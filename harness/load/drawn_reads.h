// Timed reads of an open store that stays open: what has become hot is so in the next run.
//
// Keys and values are those of StoreRuns with the same shape. Of the values one in eight is looked
// at. One run at a time; a run starts as many threads as it is asked to.
#ifndef HARNESS_LOAD_DRAWN_READS_H_
#define HARNESS_LOAD_DRAWN_READS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/store.h"
#include "harness/data/record_draw.h"
#include "harness/load/store_runs.h"

namespace harness {

// How a run reads.
struct ReadShape {
  uint32_t thread_count = 1;
  uint32_t keys_per_call = 0;  // of MultiRead; 0: Read, one by one
  double seconds = 1;          // when there is no `read_count`
  uint64_t read_count = 0;     // of all threads together
};

// What a run did to the hot values.
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
  // Opens the store of `shape`, its index built; kept open until this goes.
  static engine_race::Status Open(const StoreShape& shape, const engine_race::Options& options,
                                  std::unique_ptr<DrawnReads>* reads);

  // `seed` names the stream of draws. What the frames did meanwhile goes to *frames, if given.
  engine_race::Status Run(const RecordDraw& draw, const ReadShape& shape, uint64_t seed,
                          TimedRun* run, FrameCounts* frames = nullptr);
  // Every record once, in no order, by MultiRead.
  engine_race::Status ReadEachOnce(uint32_t thread_count, uint32_t keys_per_call);
  // Every record once, in order of key, by one Range.
  engine_race::Status RangeOnce();

  engine_race::Store* store() { return store_.get(); }
  uint64_t KeyAt(uint64_t index) const { return runs_.KeyAt(index); }

 private:
  explicit DrawnReads(const StoreShape& shape) : shape_(shape), runs_(shape) {}

  const StoreShape shape_;
  const StoreRuns runs_;
  std::unique_ptr<engine_race::Store> store_;
};

}  // namespace harness

#endif  // HARNESS_LOAD_DRAWN_READS_H_
