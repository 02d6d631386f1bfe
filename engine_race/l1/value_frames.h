// Hot values in memory: frames of 4 KiB that the index leads to in the place of the log's slots.
//
// A read enters the epoch, asks the index, and finds either a slot, to be read from the log, or the
// frame itself. Values that were read from the log are offered; what is read often enough, by a
// sketch of how often each key was asked for lately, gets the frame of what is read less. So a pass
// over everything, or reads that never come back, take nothing from what is hot and pay little.
// Frames are never written to once they can be reached, so nothing of them has to be written back.
//
// Thread-safe. Outlived by the index.
#ifndef ENGINE_RACE_L1_VALUE_FRAMES_H_
#define ENGINE_RACE_L1_VALUE_FRAMES_H_

#include <cstdint>
#include <memory>

#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"

namespace engine_race::l1 {

struct ValueFrameStats {
  uint64_t memory_bytes = 0;  // of frames in use and of what describes all of them
  uint64_t limit_bytes = 0;
  uint64_t value_count = 0;
  uint64_t hit_count = 0;
  uint64_t miss_count = 0;  // values that were offered
  uint64_t admission_count = 0;
  uint64_t eviction_count = 0;
};

class ValueFrames {
 public:
  // Frames for `max_bytes`, of which `limit_bytes` may be used at first. kOutOfMemory.
  static Status Create(Index* index, uint64_t max_bytes, uint64_t limit_bytes,
                       std::unique_ptr<ValueFrames>* frames);
  ~ValueFrames();

  // Where the newest value of `key` is: use(const char* value) is called when that is a frame, and
  // *hot set; else *ref is the slot to read. As Index::Find otherwise. `use` does not wait for
  // anything.
  template <typename UseFn>
  Status Find(uint64_t key, ValueRef* ref, bool* hot, const UseFn& use);
  // The same at the epoch of a view.
  template <typename UseFn>
  Status FindAt(uint64_t key, uint64_t view_epoch, ValueRef* ref, bool* hot, const UseFn& use);

  // Notes that `key` was asked for and found at `ref`, a slot of the log, whose verified value of
  // 4 KiB lies at `value`; keeps a copy if that is worth a frame. Not from inside Find.
  void Offer(uint64_t key, ValueRef ref, const char* value) noexcept;

  // Evicts down to `limit_bytes` and gives the memory behind it back.
  void SetLimit(uint64_t limit_bytes) noexcept;

  // Evicts ahead of need, as a task or a thread of its own may do: true while there is more to do.
  bool EvictSome() noexcept;

  ValueFrameStats Stats() const;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_VALUE_FRAMES_H_
