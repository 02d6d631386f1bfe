// The owner of frames that know their parents: blocks, each found through the swip that its frame
// points to, which lies in the frame of the block above or in an array that outlives all.
//
// Stateless; thread-safe as each call says.
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

  // Makes a frame, filled and described, reachable: true when *info(frame).parent was `expected`
  // until now. Inside the epoch, when there is a parent frame.
  static bool Install(FramePool* pool, uint32_t frame, Swip expected);
  // Takes the cooling mark off. Inside the epoch.
  static void Heat(std::atomic<uint64_t>* parent, Swip seen) {
    uint64_t word = seen.word();
    // Relaxed: the mark orders nothing; a failure means that another reader was faster.
    parent->compare_exchange_strong(word, seen.Heated().word(), std::memory_order_relaxed);
  }
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_BLOCK_OWNER_H_
