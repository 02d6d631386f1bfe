#include "engine_race/task/coroutine_arena.h"

#include <cstdlib>

#include "engine_race/base/assert.h"

namespace engine_race {

CoroutineArena::~CoroutineArena() {
  uint64_t freed_bytes = 0;
  for (size_t size_class = 0; size_class < kSizeCount; ++size_class) {
    FreeFrame* frame = free_[size_class];
    while (frame != nullptr) {
      FreeFrame* const next = frame->next;
      std::free(frame);
      frame = next;
      freed_bytes += size_class * kStepBytes;
    }
  }
  // All coroutine frames are freed by now.
  ENGINE_RACE_ASSERT(freed_bytes == memory_bytes_);
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
    ENGINE_RACE_ASSERT(memory_bytes_ >= size_class * kStepBytes);
    memory_bytes_ -= size_class * kStepBytes;
    std::free(frame);
    return;
  }
  auto* const freed = static_cast<FreeFrame*>(frame);
  freed->next = free_[size_class];
  free_[size_class] = freed;
}

}  // namespace engine_race
