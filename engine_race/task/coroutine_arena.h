// Memory for the frames of tasks: freed ones are used again, by size.
//
// One thread at a time. Gives its memory back when it is destroyed, by when all frames are freed.
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
  // Sizes in steps of 64 bytes; larger frames than 1 KiB are the heap's.
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
