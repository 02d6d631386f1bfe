// What a pool asks of those who have the swips that lead to its frames.
#ifndef ENGINE_RACE_L1_FRAME_OWNER_H_
#define ENGINE_RACE_L1_FRAME_OWNER_H_

#include <cstdint>

#include "engine_race/l1/frame_info.h"

namespace engine_race::l1 {

// Called under the pool's mutex, for frames that were installed; Release also without it, for a
// frame that was taken and is given back.
class FrameOwner {
 public:
  enum class Cooled {
    kMarked,
    kStays,  // it cannot be evicted now
    kGone,   // nothing that a reader would still want leads to it: it is evicted at once
  };
  // Marks the frame's swip as cooling.
  virtual Cooled Cool(uint32_t frame, FrameInfo* info) noexcept = 0;
  // Whether a reader has taken the mark off.
  virtual bool WasHeated(uint32_t frame, FrameInfo* info) noexcept = 0;
  // Gives the frame's swip its place back, so that no reader can find the frame any more: false
  // when, with `only_cooling`, a reader has taken the mark off. By a sequentially consistent
  // change, which comes before the look at the readers' epochs.
  virtual bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept = 0;
  // No reader is inside the frame any more: frees what it has beside its bytes.
  virtual void Release(uint32_t frame, FrameInfo* info) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_OWNER_H_
