// Memory for coroutine frames: freed ones are used again, by size.
//
// One thread at a time. All coroutine frames must be freed before it is destroyed, which gives the
// memory back.
#ifndef ENGINE_RACE_TASK_COROUTINE_ARENA_H_
#define ENGINE_RACE_TASK_COROUTINE_ARENA_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace engine_race {

class CoroutineArena {
 public:
  CoroutineArena() = default;
  CoroutineArena(const CoroutineArena&) = delete;
  CoroutineArena& operator=(const CoroutineArena&) = delete;
  ~CoroutineArena();

  // Null when memory is refused.
  void* Allocate(size_t size_bytes) noexcept;
  void Free(void* frame, size_t size_bytes) noexcept;

  uint64_t memory_bytes() const { return memory_bytes_; }

 private:
  // Sizes are in steps of 64 bytes. Coroutine frames of more than 1 KiB come from the heap.
  static constexpr size_t kStepBytes = 64;
  static constexpr size_t kSizeCount = 16;

  struct FreeFrame {
    FreeFrame* next;
  };
  std::array<FreeFrame*, kSizeCount> free_{};
  uint64_t memory_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_TASK_COROUTINE_ARENA_H_
