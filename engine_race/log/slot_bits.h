// A set of slots of one row.
//
// A value type.
#ifndef ENGINE_RACE_LOG_SLOT_BITS_H_
#define ENGINE_RACE_LOG_SLOT_BITS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/log/format.h"

namespace engine_race {

class SlotBits {
 public:
  static constexpr size_t kWordCount = format::kMaxRowRecords / 64;
  using Words = std::array<uint64_t, kWordCount>;

  SlotBits() = default;
  explicit SlotBits(const Words& words) : words_(words) {}
  // The first `count` slots of a row.
  static SlotBits First(uint32_t count) {
    SlotBits bits;
    for (uint32_t i = 0; i < kWordCount; ++i) {
      const uint32_t in_word = std::min(count - std::min(count, i * 64), 64U);
      bits.words_[i] = in_word == 64 ? ~uint64_t{0} : (uint64_t{1} << in_word) - 1;
    }
    return bits;
  }

  const Words& words() const { return words_; }
  bool Has(uint32_t slot) const { return (words_[slot / 64] >> (slot % 64) & 1) != 0; }
  void Add(uint32_t slot) { words_[slot / 64] |= uint64_t{1} << (slot % 64); }
  bool empty() const { return *this == SlotBits(); }
  uint32_t count() const {
    uint32_t count = 0;
    for (const uint64_t word : words_) count += static_cast<uint32_t>(std::popcount(word));
    return count;
  }
  // How many slots of the set come before `slot`.
  uint32_t CountBefore(uint32_t slot) const { return (*this & First(slot)).count(); }
  // The slot with that many of the set before it. There is one.
  uint32_t Nth(uint32_t n) const {
    for (uint32_t i = 0; i < kWordCount; ++i) {
      uint64_t word = words_[i];
      const auto in_word = static_cast<uint32_t>(std::popcount(word));
      if (n >= in_word) {
        n -= in_word;
        continue;
      }
      for (; n > 0; --n) word &= word - 1;
      return i * 64 + static_cast<uint32_t>(std::countr_zero(word));
    }
    ENGINE_RACE_ASSERT(false);
    return 0;
  }
  // The first slot from `slot` on that is not in the set.
  uint32_t EndFrom(uint32_t slot) const {
    for (uint32_t i = slot / 64; i < kWordCount; ++i) {
      const uint64_t others =
          ~words_[i] & (i == slot / 64 ? ~uint64_t{0} << (slot % 64) : ~uint64_t{0});
      if (others != 0) return i * 64 + static_cast<uint32_t>(std::countr_zero(others));
    }
    return format::kMaxRowRecords;
  }
  // Its first `count` slots.
  SlotBits FirstOf(uint32_t count) const {
    return count >= this->count() ? *this : *this & First(Nth(count));
  }

  friend SlotBits operator&(SlotBits a, const SlotBits& b) {
    for (size_t i = 0; i < kWordCount; ++i) a.words_[i] &= b.words_[i];
    return a;
  }
  friend SlotBits operator|(SlotBits a, const SlotBits& b) {
    for (size_t i = 0; i < kWordCount; ++i) a.words_[i] |= b.words_[i];
    return a;
  }
  // The slots of `a` that are not in `b`.
  friend SlotBits operator-(SlotBits a, const SlotBits& b) {
    for (size_t i = 0; i < kWordCount; ++i) a.words_[i] &= ~b.words_[i];
    return a;
  }
  friend bool operator==(const SlotBits&, const SlotBits&) = default;

 private:
  Words words_{};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SLOT_BITS_H_
