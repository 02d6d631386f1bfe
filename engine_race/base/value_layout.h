// How the values of a store lie in the slots of its value log. A value type.
//
// All values of a store have one size. Slots of a segment follow one another without a gap. A slot
// has the size of a value, rounded up by a 64th of it at most, so that few slots together are whole
// blocks. Direct I/O moves whole blocks: see BlocksAround.
#ifndef ENGINE_RACE_BASE_VALUE_LAYOUT_H_
#define ENGINE_RACE_BASE_VALUE_LAYOUT_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/round_up.h"

namespace engine_race {

class ValueLayout {
 public:
  ValueLayout() : ValueLayout(kValueBytes) {}
  // `value_bytes` is from kMinValueBytes to kMaxValueBytes.
  explicit ValueLayout(uint32_t value_bytes)
      : value_bytes_(value_bytes),
        slot_bytes_(static_cast<uint32_t>(RoundUp(value_bytes, GranuleOf(value_bytes)))),
        unit_bytes_(std::gcd(slot_bytes_, uint32_t{kIoAlignment})) {}

  uint32_t value_bytes() const { return value_bytes_; }
  uint32_t slot_bytes() const { return slot_bytes_; }
  // Every slot begins at a multiple of this, counted from its segment: a power of two.
  uint32_t unit_bytes() const { return unit_bytes_; }
  // Slots are whole blocks. Else a block may have parts of several.
  bool is_aligned() const { return unit_bytes_ == kIoAlignment; }
  // The most bytes that the blocks around a slot have.
  uint32_t read_bytes() const {
    return static_cast<uint32_t>(RoundUp(slot_bytes_ + kIoAlignment - unit_bytes_, kIoAlignment));
  }

  // The records of a group of values that has about `wanted_bytes`: a power of two, at most
  // `most_records`. Unless it is that, they are whole blocks.
  uint32_t GroupRecords(uint32_t wanted_bytes, uint32_t most_records) const {
    const uint32_t filling = std::bit_ceil((wanted_bytes + slot_bytes_ - 1) / slot_bytes_);
    return std::min(std::max(filling, uint32_t{kIoAlignment} / unit_bytes_), most_records);
  }
  // Whole blocks for so many slots.
  uint64_t BlockBytesFor(uint64_t slot_count) const {
    return RoundUp(slot_count * slot_bytes_, kIoAlignment);
  }

  friend bool operator==(const ValueLayout&, const ValueLayout&) = default;

 private:
  static uint32_t GranuleOf(uint32_t value_bytes) {
    return std::clamp(std::bit_floor(value_bytes / 64), 1U, uint32_t{kIoAlignment});
  }

  uint32_t value_bytes_;
  uint32_t slot_bytes_;
  uint32_t unit_bytes_;
};

// The whole blocks around a part of a file.
struct Blocks {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint32_t skip_bytes = 0;  // from their beginning to that of the part
};
inline Blocks BlocksAround(uint64_t offset, uint64_t size_bytes) {
  constexpr uint64_t kBlockBytes = kIoAlignment;
  const uint64_t begin = offset / kBlockBytes * kBlockBytes;
  return {begin, RoundUp(offset + size_bytes, kBlockBytes) - begin,
          static_cast<uint32_t>(offset - begin)};
}

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_VALUE_LAYOUT_H_
