// Frames in a row, linked by the numbers in their FrameInfos: the free ones, the cooling ones, the
// retired ones. A frame stands in one line at most, and its state says in which.
//
// Under the pool's mutex. The table outlives it.
#ifndef ENGINE_RACE_L1_FRAME_LINE_H_
#define ENGINE_RACE_L1_FRAME_LINE_H_

#include <cstdint>

#include "engine_race/l1/frame_table.h"

namespace engine_race::l1 {

class FrameLine {
 public:
  using State = FrameInfo::State;

  // Frames in this line are in `state`.
  FrameLine(const FrameTable* frames, State state) : frames_(*frames), state_(state) {}

  // At the end. The frame stands in no line.
  void Append(uint32_t frame);
  // The frame stands in this line; it is in the state `next` then.
  void Remove(uint32_t frame, State next);

  // kNoFrame when it is empty.
  uint32_t first() const { return first_; }
  uint32_t count() const { return count_; }

 private:
  const FrameTable& frames_;
  const State state_;
  uint32_t first_ = kNoFrame;
  uint32_t last_ = kNoFrame;
  uint32_t count_ = 0;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_LINE_H_
