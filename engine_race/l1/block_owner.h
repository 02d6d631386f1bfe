// The owner of frames that hold blocks. Each frame points to the swip that leads to it. That swip
// lies in the frame of the parent block, or in an array that outlives all frames.
//
// Stateless. Thread-safe as each call says.
#ifndef ENGINE_RACE_L1_BLOCK_OWNER_H_
#define ENGINE_RACE_L1_BLOCK_OWNER_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/swip.h"
#include "engine_race/l1/frame_owner.h"
#include "engine_race/l1/frame_pool.h"

namespace engine_race::l1 {

class BlockOwner final : public FrameOwner {
 public:
  Cooled Cool(uint32_t frame, FrameInfo* info) noexcept override;
  bool WasHeated(uint32_t frame, FrameInfo* info) noexcept override;
  bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept override;
  void Release(uint32_t frame, FrameInfo* info) noexcept override;

  // Makes a frame that is filled and described reachable. False if *info(frame).parent was not
  // `expected`. If there is a parent frame, the caller must be inside the epoch.
  static bool Install(FramePool* pool, uint32_t frame, Swip expected);
  // Clears the cooling bit. The caller must be inside the epoch.
  static void Heat(std::atomic<uint64_t>* parent, Swip seen) {
    uint64_t word = seen.word();
    // Relaxed: the bit orders nothing. The exchange fails if another reader was faster.
    parent->compare_exchange_strong(word, seen.Heated().word(), std::memory_order_relaxed);
  }
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_BLOCK_OWNER_H_
