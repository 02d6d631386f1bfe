// A monotone map from a stretch of keys to the cells of a radix table.
//
// Cell `c` holds the keys whose distance from the smallest, times a fixed-point factor, lies in [c,
// c + 1). The factor is computed from the ends of the stretch. So sequential integers and keys
// under one prefix fill the cells as evenly as random keys do, for any number of cells.
//
// Values.
#ifndef ENGINE_RACE_INDEX_CELL_MAP_H_
#define ENGINE_RACE_INDEX_CELL_MAP_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine_race/base/assert.h"

namespace engine_race {

class CellMap {
 public:
  // A map that contains no key.
  CellMap() = default;

  // About `cell_count` cells over [min_key, max_key]: fewer when the stretch has fewer keys.
  static CellMap Over(uint64_t min_key, uint64_t max_key, uint32_t cell_count) {
    ENGINE_RACE_ASSERT(min_key <= max_key);
    CellMap map;
    map.min_key_ = min_key;
    map.max_key_ = max_key;
    const unsigned __int128 width = static_cast<unsigned __int128>(max_key - min_key) + 1;
    // At most half a cell for each key, so that the factor stays below 2^64.
    const auto limit = static_cast<uint64_t>(width / 2);
    const uint64_t cells = std::min<uint64_t>(cell_count, limit);
    if (cells > 1) {
      map.factor_ = static_cast<uint64_t>((static_cast<unsigned __int128>(cells) << 64) / width);
    }
    return map;
  }

  // How many times each cell can be halved.
  uint32_t spare_bits() const {
    return factor_ == 0 ? 0 : static_cast<uint32_t>(std::countl_zero(factor_));
  }

  // A map of this stretch to at most cell_count() << bits cells, with bits <= spare_bits(). Its
  // Of(key), shifted right by `bits`, is the Of(key) of this map.
  CellMap Finer(uint32_t bits) const {
    ENGINE_RACE_ASSERT(bits <= spare_bits());
    CellMap map = *this;
    map.factor_ = factor_ << bits;
    return map;
  }

  bool Contains(uint64_t key) const { return key >= min_key_ && key <= max_key_; }

  // The cell of a key that the map contains: below cell_count().
  uint32_t Of(uint64_t key) const {
    ENGINE_RACE_ASSERT(Contains(key));
    return static_cast<uint32_t>((static_cast<unsigned __int128>(key - min_key_) * factor_) >> 64);
  }

  // A key's cell, and how far into it the key lies.
  struct Position {
    uint32_t cell;
    uint64_t fraction;  // of 2^64

    uint32_t FractionOf(uint32_t size) const {
      return static_cast<uint32_t>((static_cast<unsigned __int128>(fraction) * size) >> 64);
    }
  };
  Position PositionOf(uint64_t key) const {
    ENGINE_RACE_ASSERT(Contains(key));
    const unsigned __int128 product = static_cast<unsigned __int128>(key - min_key_) * factor_;
    return {static_cast<uint32_t>(product >> 64), static_cast<uint64_t>(product)};
  }

  uint64_t min_key() const { return min_key_; }
  uint64_t max_key() const { return max_key_; }
  // Not to be called on an empty map.
  uint32_t cell_count() const { return Of(max_key_) + 1; }

 private:
  uint64_t min_key_ = ~uint64_t{0};
  uint64_t max_key_ = 0;
  uint64_t factor_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_CELL_MAP_H_
