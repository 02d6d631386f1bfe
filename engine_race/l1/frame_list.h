// A list of frames, linked by frame numbers in their FrameInfos. The free, the cooling and the
// retired frames have one list each. A frame is in one list at most, and its state says in which.
//
// Under the pool's mutex. The frame memory outlives it.
#ifndef ENGINE_RACE_L1_FRAME_LIST_H_
#define ENGINE_RACE_L1_FRAME_LIST_H_

#include <cstdint>

#include "engine_race/l1/frame_memory.h"

namespace engine_race::l1 {

class FrameList {
 public:
  using State = FrameInfo::State;

  // All frames of this list are in `state`.
  FrameList(const FrameMemory* frames, State state) : frames_(*frames), state_(state) {}

  // Adds a frame at the end. It must be in no list.
  void Append(uint32_t frame);
  // Removes a frame of this list and sets its state to `next`.
  void Remove(uint32_t frame, State next);

  // kNoFrame when the list is empty.
  uint32_t first() const { return first_; }
  uint32_t count() const { return count_; }

 private:
  const FrameMemory& frames_;
  const State state_;
  uint32_t first_ = kNoFrame;
  uint32_t last_ = kNoFrame;
  uint32_t count_ = 0;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_LIST_H_
