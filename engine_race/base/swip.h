// One word that is either where something lies on disk or the frame that holds it in memory.
//
//   bit 63       hot: the number is a frame's; else a location's (a block, a value's slot)
//   bit 62       cooling: hot, and to be evicted unless somebody reads it first
//   bits 31..61  the owner's; a change of the number leaves them alone
//   bits 0..30   the number
//
// Blocks of tables are found through swips in the frames of the blocks above them, values through
// the words of the index. Changed by compare-and-exchange only. Values.
#ifndef ENGINE_RACE_BASE_SWIP_H_
#define ENGINE_RACE_BASE_SWIP_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/assert.h"

namespace engine_race {

class Swip {
 public:
  static constexpr uint32_t kNumberBits = 31;
  static constexpr uint64_t kNumberMask = (uint64_t{1} << kNumberBits) - 1;
  static constexpr uint64_t kHotBit = uint64_t{1} << 63;
  static constexpr uint64_t kCoolingBit = uint64_t{1} << 62;
  static constexpr uint64_t kTagMask = kHotBit | kCoolingBit;
  static_assert((kNumberMask & kTagMask) == 0);

  Swip() = default;
  explicit Swip(uint64_t word) : word_(word) {}

  uint64_t word() const { return word_; }
  uint32_t number() const { return static_cast<uint32_t>(word_ & kNumberMask); }
  bool hot() const { return (word_ & kHotBit) != 0; }
  bool cooling() const { return (word_ & kCoolingBit) != 0; }

  // Keep the owner's bits and replace the number and the tag.
  Swip At(uint32_t location) const { return With(location, 0); }
  Swip In(uint32_t frame) const { return With(frame, kHotBit); }
  Swip Cooling() const {
    ENGINE_RACE_ASSERT(hot());
    return Swip(word_ | kCoolingBit);
  }
  Swip Heated() const { return Swip(word_ & ~kCoolingBit); }

  friend bool operator==(Swip a, Swip b) { return a.word_ == b.word_; }

 private:
  Swip With(uint32_t number, uint64_t tag) const {
    ENGINE_RACE_ASSERT((number & ~kNumberMask) == 0);
    return Swip((word_ & ~(kNumberMask | kTagMask)) | number | tag);
  }

  uint64_t word_ = 0;
};
static_assert(sizeof(Swip) == 8);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_SWIP_H_
