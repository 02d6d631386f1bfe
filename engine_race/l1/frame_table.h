// The memory of a pool's frames, and what is known of each of them.
//
// Frames are touched in the order of their numbers: those from touched_count() on hold no memory.
//
// Owns the memory. data() and info() from any thread; the rest under the pool's mutex.
#ifndef ENGINE_RACE_L1_FRAME_TABLE_H_
#define ENGINE_RACE_L1_FRAME_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/l1/frame_info.h"

namespace engine_race::l1 {

class FrameTable {
 public:
  FrameTable() = default;
  FrameTable(const FrameTable&) = delete;
  FrameTable& operator=(const FrameTable&) = delete;
  ~FrameTable();

  // Address space for `frame_count` frames of `frame_bytes`. Before anything else. kOutOfMemory.
  Status Allocate(size_t frame_bytes, uint32_t frame_count, const Placement& placement);

  char* data(uint32_t frame) const { return memory_.data() + frame * frame_bytes_; }
  FrameInfo& info(uint32_t frame) const { return infos()[frame]; }
  size_t frame_bytes() const { return frame_bytes_; }
  uint32_t frame_count() const { return frame_count_; }

  uint32_t touched_count() const { return touched_count_; }
  // The first frame that holds no memory, which it may from now on.
  uint32_t TouchNext();
  // The last frame that was touched is touched no longer; its memory stays until GiveMemoryBack.
  void UntouchLast();
  // Of frames [begin, end), which nobody uses meanwhile. From any thread.
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

#endif  // ENGINE_RACE_L1_FRAME_TABLE_H_
