#include "engine_race/base/thread_number.h"

#include <pthread.h>

#include <bitset>
#include <mutex>

namespace engine_race::thread_number {
namespace {

// The mutex orders the last use of a number by one thread before its first use by the next.
constinit std::mutex numbers_mutex;
constinit std::bitset<kSharedThreadNumber> numbers;

// A forked child finds the mutex unlocked. Without memory for the handlers it may not.
[[gnu::constructor]] void HoldWhileForking() {
  static_cast<void>(::pthread_atfork([] { numbers_mutex.lock(); }, [] { numbers_mutex.unlock(); },
                                     [] { numbers_mutex.unlock(); }));
}

void Forget() {
  const std::lock_guard lock(numbers_mutex);
  if (own < kSharedThreadNumber) numbers[own] = false;
  own = kSharedThreadNumber;
}

}  // namespace

constinit thread_local uint32_t own = kNone;

uint32_t Assign() {
  struct UntilTheThreadEnds {
    ~UntilTheThreadEnds() { Forget(); }
  };
  static thread_local UntilTheThreadEnds until_the_thread_ends;
  const std::lock_guard lock(numbers_mutex);
  uint32_t number = 0;
  while (number < kSharedThreadNumber && numbers[number]) ++number;
  if (number < kSharedThreadNumber) numbers[number] = true;
  own = number;
  return number;
}

}  // namespace engine_race::thread_number
