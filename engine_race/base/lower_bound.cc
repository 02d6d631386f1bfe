#include "engine_race/base/lower_bound.h"

namespace engine_race {

__attribute__((noinline)) size_t LowerBound(const uint64_t* keys, size_t count, uint64_t key) {
  const uint64_t* base = keys;
  while (count > 0) {
    // Half of the count, rounded up: so the last step compares the last key too, and nothing
    // follows the loop.
    const size_t half = (count + 1) / 2;
    const size_t mask = 0 - static_cast<size_t>(base[half - 1] < key);
    base += half & mask;
    count -= half;
  }
  return static_cast<size_t>(base - keys);
}

}  // namespace engine_race
