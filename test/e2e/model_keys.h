// The keys of the stores that are compared with a model: which ones a store takes, and how they are
// picked.
//
// Values. One thread each.
#ifndef TEST_E2E_MODEL_KEYS_H_
#define TEST_E2E_MODEL_KEYS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/log/geometry.h"
#include "test/test_util.h"

namespace engine_race::test {

using Rng = std::mt19937_64;

// Half of the stores have all keys. The others have a part of any length, at the ends too.
inline std::optional<KeyRange> RandomKeys(Rng& rng) {
  constexpr uint64_t kMax = ~uint64_t{0};
  if (rng() % 2 == 0) return std::nullopt;
  const uint64_t more = rng() >> rng() % 64;
  switch (rng() % 4) {
    case 0:
      return KeyRange{0, more};
    case 1:
      return KeyRange{kMax - more, kMax};
    default: {
      const uint64_t first = rng();
      return KeyRange{first, first + std::min(more, kMax - first)};
    }
  }
}

// The keys of one store, and how they are picked.
class KeyPool {
 public:
  KeyPool(const Geometry& geometry, Rng& rng) : skew_(rng() % 4) {
    // Some are none of the store's, unless it has all keys.
    const KeyRange& own = geometry.keys();
    keys_ = {0, ~uint64_t{0}, own.first - 1, own.last + 1};
    for (uint32_t b = 0; b <= geometry.division.last_bucket(); ++b) {
      keys_.push_back(geometry.FirstKeyOf(b));
      keys_.push_back(geometry.LastKeyOf(b));
    }
    const uint64_t span = own.last - own.first;
    const size_t count = 1 + rng() % 400;
    const uint64_t prefix = rng() & 0xfff0000000000000;
    const uint64_t spread = rng() % 3;
    while (keys_.size() < count) {
      const uint64_t number = keys_.size();
      const uint64_t drawn = spread == 0   ? number * 0x9e3779b97f4a7c15
                             : spread == 1 ? prefix | (rng() >> 12)
                                           : prefix + number;
      keys_.push_back(own.Contains(drawn) ? drawn : own.first + drawn % (span + 1));
    }
    std::sort(keys_.begin(), keys_.end());
    keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
    std::shuffle(keys_.begin(), keys_.end(), rng);
  }

  uint64_t Pick(Rng& rng) const {
    const uint64_t n = keys_.size();
    switch (skew_) {
      case 0:
        return keys_[rng() % n];
      case 1:
        return keys_[rng() % (rng() % n + 1)];
      case 2:
        return keys_[rng() % 2 == 0 ? rng() % std::min<uint64_t>(n, 3) : rng() % n];
      default:
        return keys_[next_++ / 2 % n];
    }
  }

  // A key that may never have been written, or the end of all.
  std::string Bound(Rng& rng) const {
    const uint64_t draw = rng() % 8;
    if (draw == 0) return "";
    if (draw == 1) return KeyOf(rng());
    return KeyOf(Pick(rng) + (draw == 2 ? 1 : 0));
  }

 private:
  const uint64_t skew_;
  std::vector<uint64_t> keys_;
  mutable uint64_t next_ = 0;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_MODEL_KEYS_H_
