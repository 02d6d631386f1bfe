// What one bucket keeps in memory while its store is open.
//
// Plain state; everything but the atomics is guarded by `mutex`.
#ifndef ENGINE_RACE_LOG_BUCKET_H_
#define ENGINE_RACE_LOG_BUCKET_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engine_race/log/lane.h"

namespace engine_race {

class AppendListener;

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
  void WakeOneIfRoom() {
    if (waiting == 0 || waking || !HasRoom()) return;
    waking = true;
    changed.notify_one();
  }

  std::mutex mutex;
  // A lane has moved, a pin has gone, or a group's write has failed.
  std::condition_variable changed;
  // For Sync: a write to the log has ended.
  std::condition_variable written;
  uint32_t waiting = 0;
  bool waking = false;
  uint64_t record_count = 0;
  Lane values;
  Lane keys;
  AppendListener* listener = nullptr;
  // Which extra value places have been reserved in this opening, a bit each.
  uint32_t reserved_extra_places = 0;
  // Records below this are in the logs and outlive power loss.
  uint64_t synced_count = 0;
  // Whether what this opening found staged has been compared with its checksums. It must have been
  // before anything is written over the logs or behind it.
  bool staging_verified = false;
  // Log bytes reserved ahead of what has been written.
  uint64_t reserved_key_bytes = 0;
  uint64_t reserved_value_bytes = 0;
  // Set at Open and constant after it.
  bool damaged = false;
  // Copies for readers that hold no lock.
  std::atomic<uint64_t> published_count{0};
  std::atomic<uint64_t> published_flushed_values{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_H_
