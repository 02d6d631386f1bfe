// How many values a walk of an iterator reads at once.
//
// A walk begins with as many as the one before it wanted. While it wants all that is brought, each
// reading has twice as many as the one before. A walk that leaves values out gets fewer.
//
// A value type.
#ifndef ENGINE_RACE_SCAN_READ_AHEAD_H_
#define ENGINE_RACE_SCAN_READ_AHEAD_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/scan/window_reader.h"

namespace engine_race {

class ReadAhead {
 public:
  void BeginWalk() {
    if (walk_count_ != 0) expected_count_ = walk_count_;
    walk_count_ = brought_count_ = used_count_ = 0;
  }
  void CountValue() {
    ++walk_count_;
    ++used_count_;
  }
  // For the next reading, from 1 to WindowPool::kWalkRecords.
  uint32_t NextCount() const {
    uint64_t count = 2 * brought_count_;
    uint64_t most = WindowPool::kWalkRecords;
    if (brought_count_ == 0) {
      // The walk before may have been another kind of walk.
      count = expected_count_;
      most = WindowPool::kWindowRecords;
    } else if (used_count_ < brought_count_) {
      count = used_count_;
    }
    return static_cast<uint32_t>(std::clamp<uint64_t>(count, 1, most));
  }
  void CountReading(uint32_t value_count) {
    brought_count_ = value_count;
    used_count_ = 0;
  }

 private:
  uint64_t expected_count_ = 1;
  uint64_t walk_count_ = 0;
  // By the last reading, and how many of these were wanted.
  uint64_t brought_count_ = 0;
  uint64_t used_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_READ_AHEAD_H_
