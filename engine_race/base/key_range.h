// A stretch of the key space, as numbers.
//
// A value type.
#ifndef ENGINE_RACE_BASE_KEY_RANGE_H_
#define ENGINE_RACE_BASE_KEY_RANGE_H_

#include <algorithm>
#include <cstdint>

namespace engine_race {

// The keys from `first` to `last`, both included; none when first > last. The default is all keys.
struct KeyRange {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};

  bool empty() const { return first > last; }
  bool Contains(uint64_t key) const { return key >= first && key <= last; }
  bool HasAllKeys() const { return first == 0 && last == ~uint64_t{0}; }
  // The keys that both have.
  KeyRange ClippedTo(const KeyRange& other) const {
    return {std::max(first, other.first), std::min(last, other.last)};
  }
  bool operator==(const KeyRange&) const = default;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_KEY_RANGE_H_
