// The clocks that the engine reads.
//
// Stateless; every call from any thread.
#ifndef ENGINE_RACE_BASE_CLOCK_H_
#define ENGINE_RACE_BASE_CLOCK_H_

#include <time.h>

#include <chrono>
#include <cstdint>

namespace engine_race {

// Of a clock that never goes back, in nanoseconds.
inline uint64_t MonotonicNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// Milliseconds since the machine started, its sleep included. Every process reads the same clock.
inline uint64_t BootTimeMs() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CLOCK_H_
