// Admits values that a walk has read into free frames, so that the next walk finds them there.
//
// Copies take a bounded part of a walk's time. That matters for memory that was never touched: the
// first touch of a page may take longer than reading its value from the device.
//
// One thread at a time. Owns nothing; the frames outlive it.
#ifndef ENGINE_RACE_SCAN_FRAME_FILLER_H_
#define ENGINE_RACE_SCAN_FRAME_FILLER_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/base/clock.h"
#include "engine_race/hot/value_frames.h"
#include "engine_race/index/index.h"

namespace engine_race {

// Lets some work take at most so many percent of the time that other work takes. Once it has taken
// all, it rests until it may take kBurstNs at once. So frames are filled in runs, which
// ValueFrames::TakeHot finds. The caller reads the clock, in nanoseconds.
class TimeBudget {
 public:
  TimeBudget(uint32_t percent, uint64_t now_ns) : percent_(percent), last_ns_(now_ns) {}

  // Whether it may begin. If so, End says when it has ended.
  bool Begin(uint64_t now_ns) {
    const uint64_t earned_ns = std::min(now_ns - last_ns_, kMaxCountedNs) * percent_ / 100;
    left_ns_ = std::min(left_ns_ + static_cast<int64_t>(earned_ns), kBurstNs);
    last_ns_ = now_ns;
    rests_ = left_ns_ <= 0 || (rests_ && left_ns_ < kBurstNs);
    return !rests_;
  }
  void End(uint64_t now_ns) {
    // The process may have been stopped meanwhile.
    left_ns_ -= static_cast<int64_t>(std::min(now_ns - last_ns_, kMaxCountedNs));
    last_ns_ = now_ns;
  }

 private:
  static constexpr int64_t kBurstNs = 2'000'000;
  // The most that one call counts.
  static constexpr uint64_t kMaxCountedNs = 1'000'000'000;

  const uint32_t percent_;
  uint64_t last_ns_;  // of the last Begin or End
  int64_t left_ns_ = 0;
  bool rests_ = false;
};

// Admits the values of a walk's batches within its budget of time.
class FrameFiller {
 public:
  // `frames` may be null.
  FrameFiller(ValueFrames* frames, uint32_t time_percent)
      : frames_(frames), time_(time_percent, frames == nullptr ? 0 : MonotonicNs()) {}

  // A hint.
  bool MayAdmit() const { return frames_ != nullptr && frames_->MayAdmit(); }

  // Whether the values of a batch may be admitted now. If so, End must follow.
  bool Begin() {
    if (!MayAdmit()) return false;
    if (batches_to_skip_ > 0) {
      --batches_to_skip_;
      return false;
    }
    return time_.Begin(MonotonicNs());
  }
  // `ref` is its slot in the log.
  void Admit(uint64_t key, ValueRef ref, const char* value) noexcept {
    const bool is_without_block =
        frames_->AdmitIfFree(key, ref, value) == ValueFrames::Admission::kNoBlock;
    without_block_count_ = is_without_block ? without_block_count_ + 1 : 0;
  }
  void End() {
    time_.End(MonotonicNs());
    if (without_block_count_ >= kMaxWithoutBlock) batches_to_skip_ = kSkippedBatches;
  }

 private:
  // After so many keys in a row whose blocks are in no frame, batches are skipped.
  static constexpr uint32_t kMaxWithoutBlock = 16;
  static constexpr uint32_t kSkippedBatches = 64;

  ValueFrames* const frames_;
  TimeBudget time_;
  uint32_t batches_to_skip_ = 0;
  uint32_t without_block_count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_FRAME_FILLER_H_
