// What one bucket keeps in memory while its store is open, and the lanes in which its staged
// groups travel to the logs.
//
// Plain state; everything but the atomics is guarded by Bucket::mutex.
#ifndef ENGINE_RACE_LOG_BUCKET_H_
#define ENGINE_RACE_LOG_BUCKET_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine_race/log/format.h"

namespace engine_race {

class AppendListener;

// One lane holds the groups of one kind (values or key entries) of a bucket. Group g is staged in
// half g % kStagingHalves; groups may be written out of order, but `flushed` only ever counts a
// prefix. A half takes its next group once its old one is part of that prefix and unpinned.
class Lane {
 public:
  void Init(uint64_t flushed_records, uint32_t group_records) {
    flushed_ = flushed_records;
    group_records_ = group_records;
  }

  // Records whose group is in the log for good; a multiple of the group.
  uint64_t flushed() const { return flushed_; }

  // Whether record `slot`, the next one, has a place: its half is free of older groups.
  bool HasRoomFor(uint64_t slot) const {
    if (slot % group_records_ != 0) return true;
    return slot - flushed_ < uint64_t{group_records_} * format::kStagingHalves &&
           halves_[HalfOf(slot)].pins == 0;
  }

  // A full group below `record_count` that nobody writes: one that has just been filled, or one
  // whose write failed. False when there is none.
  bool FindIdleFullGroup(uint64_t record_count, uint64_t* group) const {
    for (uint64_t first = flushed_; first + group_records_ <= record_count;
         first += group_records_) {
      const Half& half = halves_[HalfOf(first)];
      if (half.state == HalfState::kIdle) {
        *group = first / group_records_;
        return true;
      }
    }
    return false;
  }

  void BeginWrite(uint64_t group) { HalfOfGroup(group).state = HalfState::kWriting; }

  // True when `flushed` has moved.
  bool EndWrite(uint64_t group, bool ok) {
    HalfOfGroup(group).state = ok ? HalfState::kWritten : HalfState::kIdle;
    const uint64_t before = flushed_;
    while (halves_[HalfOf(flushed_)].state == HalfState::kWritten) {
      halves_[HalfOf(flushed_)].state = HalfState::kIdle;
      flushed_ += group_records_;
    }
    return flushed_ != before;
  }

  // A pinned half is not used again; for readers of staged records.
  void Pin(uint64_t slot) { ++halves_[HalfOf(slot)].pins; }
  // True when that was the last pin.
  bool Unpin(uint64_t slot) { return --halves_[HalfOf(slot)].pins == 0; }

 private:
  enum class HalfState : uint8_t { kIdle, kWriting, kWritten };
  struct Half {
    uint32_t pins = 0;
    HalfState state = HalfState::kIdle;
  };

  uint64_t HalfOf(uint64_t slot) const { return slot / group_records_ % format::kStagingHalves; }
  Half& HalfOfGroup(uint64_t group) { return halves_[group % format::kStagingHalves]; }

  uint64_t flushed_ = 0;
  uint32_t group_records_ = 1;
  std::array<Half, format::kStagingHalves> halves_;
};

// Aligned so that two buckets never share a cache line.
struct alignas(64) Bucket {
  // Whether the next record has a place in both lanes.
  bool HasRoom() const { return values.HasRoomFor(record_count) && keys.HasRoomFor(record_count); }

  // Waits for a place. At most one waiter is on its way out of here at a time, and passes the word
  // on once it has staged its record: waking all of them for the few places of a group would cost
  // more than the group's write.
  void Wait(std::unique_lock<std::mutex>* lock) {
    ++waiting;
    changed.wait(*lock);
    --waiting;
    waking = false;
  }
  void WakeOneIfRoom() const {
    if (waiting == 0 || waking || !HasRoom()) return;
    waking = true;
    changed.notify_one();
  }

  mutable std::mutex mutex;
  // A lane has moved, a pin has gone, or a group's write has failed.
  mutable std::condition_variable changed;
  uint32_t waiting = 0;
  mutable bool waking = false;
  uint64_t record_count = 0;
  mutable Lane values;
  Lane keys;
  AppendListener* listener = nullptr;
  // Key log bytes reserved ahead of its end, so that the log lies in few pieces.
  uint64_t reserved_key_bytes = 0;
  // Set at Open and constant after it.
  bool damaged = false;
  // Copies for readers that hold no lock.
  std::atomic<uint64_t> published_count{0};
  std::atomic<uint64_t> published_flushed_values{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_H_
