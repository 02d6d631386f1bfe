#include "engine_race/l1/frame_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys_mapping.h"

namespace engine_race::l1 {

FrameMemory::~FrameMemory() { std::destroy_n(infos(), made_count_); }

Status FrameMemory::Allocate(size_t frame_bytes, uint32_t frame_count, const Placement& placement) {
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(frame_bytes * frame_count, /*huge_pages=*/true, &memory_, placement));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(sizeof(FrameInfo) * frame_count,
                                               /*huge_pages=*/false, &info_memory_, placement));
  frame_bytes_ = frame_bytes;
  frame_count_ = frame_count;
  return Status::Ok();
}

uint32_t FrameMemory::TouchNext() {
  ENGINE_RACE_ASSERT(touched_count_ < frame_count_);
  const uint32_t frame = touched_count_++;
  if (frame == made_count_) new (&infos()[made_count_++]) FrameInfo();
  ENGINE_RACE_ASSERT(touched_count_ <= made_count_);
  return frame;
}

void FrameMemory::UntouchLast() {
  ENGINE_RACE_ASSERT(touched_count_ > 0);
  --touched_count_;
}

void FrameMemory::Populate(uint32_t begin, uint32_t end) const {
  // Whole pages: those at both ends may be parts of other frames, which stay as they are.
  const size_t begin_bytes = begin * frame_bytes_ / kIoAlignment * kIoAlignment;
  const size_t end_bytes = std::min(RoundUp(end * frame_bytes_, kIoAlignment), memory_.size());
  bool populated = false;
  static_cast<void>(
      sys::PopulateForStores(memory_.data() + begin_bytes, end_bytes - begin_bytes, &populated));
}

void FrameMemory::GiveMemoryBack(uint32_t begin, uint32_t end) const {
  constexpr size_t kPage = kIoAlignment;
  const size_t begin_bytes = RoundUp(begin * frame_bytes_, kPage);
  const size_t end_bytes = end * frame_bytes_ / kPage * kPage;
  if (begin_bytes >= end_bytes) return;
  // Advice only: memory that the system does not take back is used again later.
  ::madvise(memory_.data() + begin_bytes, end_bytes - begin_bytes, MADV_DONTNEED);
}

}  // namespace engine_race::l1
