// How many values a walk of an iterator reads at once.
//
// A walk begins with as many as the walk before it asked for, at most a window of them. If it used
// all values of a reading, the next one has twice as many, at most those of a walk. It has fewer
// where the walk before asked for no more. If the walk skipped some, the next reading has as many
// as it used. Half way through a reading of more than a window the next one begins. A released
// iterator keeps the count for the next user of its memory.
//
// The values of a window and of a walk are BufferLayout's: 64 and 1024 of 4 KiB.
//
// A value type.
#ifndef ENGINE_RACE_SCAN_READING_SIZES_H_
#define ENGINE_RACE_SCAN_READING_SIZES_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/scan/buffer_layout.h"

namespace engine_race {

class ReadingSizes {
 public:
  explicit ReadingSizes(const BufferLayout& layout)
      : window_records_(layout.window_records()), walk_records_(layout.walk_records()) {}

  void BeginWalk() {
    if (asked_count_ != 0) expected_count_ = asked_count_;
    asked_count_ = read_count_ = used_count_ = 0;
  }
  void CountValue() {
    ++asked_count_;
    ++used_count_;
    if (alone_count_ > 0) --alone_count_;
  }
  // For the next reading, from 1 to walk_records.
  uint32_t NextCount() const {
    if (alone_count_ > 0) return 1;
    uint64_t count = 2 * read_count_;
    uint64_t most = walk_records_;
    if (read_count_ == 0) {
      // The walk before may have been another kind of walk.
      count = expected_count_;
      most = window_records_;
    } else if (used_count_ < read_count_) {
      count = used_count_;
    } else if (asked_count_ < expected_count_) {
      count = std::min(count, expected_count_ - asked_count_);
    }
    return static_cast<uint32_t>(std::clamp<uint64_t>(count, 1, most));
  }
  // How many values to begin to read ahead now. To be called after each CountValue: it is not 0
  // once in each reading of more than a window.
  uint32_t AheadCount() const {
    if (read_count_ <= window_records_ || used_count_ != read_count_ / 2) return 0;
    return static_cast<uint32_t>(std::min<uint64_t>(2 * read_count_, walk_records_));
  }
  void CountReading(uint32_t value_count) {
    read_count_ = value_count;
    used_count_ = 0;
  }
  // There was no memory for a reading of several values: the next ones are read alone.
  void CountRefusal() {
    CountReading(1);
    alone_count_ = window_records_;
  }

 private:
  const uint32_t window_records_;
  const uint32_t walk_records_;
  uint64_t expected_count_ = 1;
  uint64_t asked_count_ = 0;
  // By the last reading, and how many of these were asked for.
  uint64_t read_count_ = 0;
  uint64_t used_count_ = 0;
  uint32_t alone_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_READING_SIZES_H_
