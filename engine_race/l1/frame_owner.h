// The calls of a pool to the owner of the swips that lead to its frames.
#ifndef ENGINE_RACE_L1_FRAME_OWNER_H_
#define ENGINE_RACE_L1_FRAME_OWNER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine_race/l1/frame_info.h"

namespace engine_race::l1 {

// One for each kind of frame. Called under the pool's mutex, for frames that were installed.
// Release is also called without the mutex, for a frame that was taken and is given back.
class FrameOwner {
 public:
  enum class Cooled {
    kCooling,
    kInUse,     // it cannot be evicted now
    kOrphaned,  // no record that may be read leads to it: it is evicted at once
  };
  // Sets the cooling bit in the frame's swip.
  virtual Cooled Cool(uint32_t frame, FrameInfo* info) noexcept = 0;
  // Whether no record or part that may be read leads to the frame any more. Such a frame is worth
  // nothing, however often its content was used.
  virtual bool IsOrphan(uint32_t /*frame*/, FrameInfo* /*info*/) noexcept { return false; }
  // Whether a reader has cleared the cooling bit.
  virtual bool WasHeated(uint32_t frame, FrameInfo* info) noexcept = 0;
  // Makes the frame's swip lead to disk again, so that no later reader finds the frame. False if
  // `only_cooling` is set and a reader has cleared the cooling bit. The change must be sequentially
  // consistent: the pool looks at the readers' epochs after it.
  virtual bool Unswizzle(uint32_t frame, FrameInfo* info, bool only_cooling) noexcept = 0;
  // Called when no reader is left in the frame: frees what the owner keeps for it.
  virtual void Release(uint32_t frame, FrameInfo* info) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

// The owners of a pool's frames, one for each kind.
class FrameOwners {
 public:
  void Set(FrameKind kind, FrameOwner* owner) { owners_[static_cast<size_t>(kind)] = owner; }
  bool Has(FrameKind kind) const { return owners_[static_cast<size_t>(kind)] != nullptr; }
  FrameOwner& Of(const FrameInfo& info) const {
    FrameOwner* const owner = owners_[static_cast<size_t>(info.kind)];
    ENGINE_RACE_ASSERT(owner != nullptr);
    return *owner;
  }
  // Nobody keeps anything for a frame whose owner was removed or never set.
  void Release(uint32_t frame, FrameInfo* info) const {
    FrameOwner* const owner = owners_[static_cast<size_t>(info->kind)];
    if (owner != nullptr) owner->Release(frame, info);
  }

 private:
  std::array<FrameOwner*, kFrameKindCount> owners_{};
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_OWNER_H_
