// The memory of a pool's frames and their descriptions.
//
// Frames are touched in the order of their numbers. Those from touched_count() on hold no memory
// but what Populate has given them.
//
// Owns the memory. data() and info() from any thread; the other calls under the pool's mutex.
#ifndef ENGINE_RACE_L1_FRAME_MEMORY_H_
#define ENGINE_RACE_L1_FRAME_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/frame_info.h"

namespace engine_race::l1 {

class FrameMemory {
 public:
  FrameMemory() = default;
  FrameMemory(const FrameMemory&) = delete;
  FrameMemory& operator=(const FrameMemory&) = delete;
  ~FrameMemory();

  // Reserves addresses for `frame_count` frames of `frame_bytes`. To be called first. kOutOfMemory.
  Status Allocate(size_t frame_bytes, uint32_t frame_count, const Placement& placement);

  char* data(uint32_t frame) const { return memory_.data() + frame * frame_bytes_; }
  FrameInfo& info(uint32_t frame) const { return infos()[frame]; }
  size_t frame_bytes() const { return frame_bytes_; }
  uint32_t frame_count() const { return frame_count_; }

  uint32_t touched_count() const { return touched_count_; }
  // Adds the next frame to the touched ones and returns it.
  uint32_t TouchNext();
  // Removes the last frame from the touched ones. It holds memory until GiveMemoryBack.
  void UntouchLast();
  // Has the system give frames [begin, end) their memory now. Only a matter of time: without it
  // they get it when they are first used. From any thread.
  void Populate(uint32_t begin, uint32_t end) const;
  // Gives the memory of frames [begin, end) back. Nobody may use them meanwhile. From any thread.
  void GiveMemoryBack(uint32_t begin, uint32_t end) const;

  size_t memory_bytes() const {
    return size_t{touched_count_} * frame_bytes_ + size_t{made_count_} * sizeof(FrameInfo);
  }

 private:
  FrameInfo* infos() const { return reinterpret_cast<FrameInfo*>(info_memory_.data()); }

  size_t frame_bytes_ = 0;
  uint32_t frame_count_ = 0;
  uint32_t touched_count_ = 0;
  uint32_t made_count_ = 0;  // FrameInfos
  Region memory_;
  Region info_memory_;  // FrameInfo each, made as frames are first touched
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_FRAME_MEMORY_H_
