#include "engine_race/task/coroutine_arena.h"

#include <cstdlib>

namespace engine_race {

CoroutineArena::~CoroutineArena() {
  for (FreeFrame* frame : free_) {
    while (frame != nullptr) {
      FreeFrame* const next = frame->next;
      std::free(frame);
      frame = next;
    }
  }
}

void* CoroutineArena::Allocate(size_t size_bytes) noexcept {
  const size_t size_class = (size_bytes + kStepBytes - 1) / kStepBytes;
  if (size_class < kSizeCount && free_[size_class] != nullptr) {
    FreeFrame* const frame = free_[size_class];
    free_[size_class] = frame->next;
    return frame;
  }
  void* const memory = std::malloc(size_class * kStepBytes);
  if (memory != nullptr) memory_bytes_ += size_class * kStepBytes;
  return memory;
}

void CoroutineArena::Free(void* frame, size_t size_bytes) noexcept {
  const size_t size_class = (size_bytes + kStepBytes - 1) / kStepBytes;
  if (size_class >= kSizeCount) {
    memory_bytes_ -= size_class * kStepBytes;
    std::free(frame);
    return;
  }
  auto* const freed = static_cast<FreeFrame*>(frame);
  freed->next = free_[size_class];
  free_[size_class] = freed;
}

}  // namespace engine_race
