// Waiting for what another thread does, for as long as it takes.
#ifndef TEST_EVENTUALLY_H_
#define TEST_EVENTUALLY_H_

#include <chrono>
#include <thread>

namespace engine_race::test {

// Waits until condition() is true; false when that takes so long that it never will be.
template <typename ConditionFn>
bool Eventually(const ConditionFn& condition) {
  constexpr std::chrono::seconds kNever{120};
  const auto begin = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - begin > kNever) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace engine_race::test

#endif  // TEST_EVENTUALLY_H_
