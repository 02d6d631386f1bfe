// Small numbers of threads, so that each thread can have a cache line of its own to count in.
//
// A living thread has its number alone, and another thread may get it once that one has ended. The
// numbers serve the whole process. Thread safety: every call from any thread.
#ifndef ENGINE_RACE_BASE_THREAD_NUMBER_H_
#define ENGINE_RACE_BASE_THREAD_NUMBER_H_

#include <cstdint>

namespace engine_race {

// The number that threads share which find no free one, and threads that are about to end.
inline constexpr uint32_t kSharedThreadNumber = 4095;

namespace thread_number {

inline constexpr uint32_t kNone = ~uint32_t{0};
extern constinit thread_local uint32_t own;
uint32_t Assign();

}  // namespace thread_number

// The number of the calling thread, at most kSharedThreadNumber. A thread that
// gets the number of one that has ended sees all that this one did.
inline uint32_t ThreadNumber() {
  const uint32_t number = thread_number::own;
  return number != thread_number::kNone ? number : thread_number::Assign();
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_THREAD_NUMBER_H_
