// A reference of the index to a record: where its value lies, its checksum, and whether it is a
// tombstone.
//
// Values.
#ifndef ENGINE_RACE_INDEX_VALUE_REF_H_
#define ENGINE_RACE_INDEX_VALUE_REF_H_

#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/base/swip.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"

namespace engine_race {

// All that the index keeps of a record beside its key, in one word: slot, checksum, tombstone bit.
// The word is a swip: while the value is hot it has the frame's number instead of the slot.
class ValueRef {
 public:
  ValueRef() = default;
  ValueRef(uint32_t slot, uint32_t value_checksum, bool tombstone)
      : word_(slot | (uint64_t{value_checksum} << format::kSlotBits) |
              (uint64_t{tombstone} << (format::kSlotBits + format::kChecksumBits))) {
    ENGINE_RACE_ASSERT(slot >> format::kSlotBits == 0 && value_checksum <= format::kChecksumMask);
  }
  explicit ValueRef(const KeyRecord& record)
      : ValueRef(record.slot, ChecksumOfHash(record.value_hash), record.tombstone) {}

  // Not of a hot reference.
  uint32_t slot() const {
    ENGINE_RACE_ASSERT(!hot());
    return Swip(word_).number();
  }
  bool hot() const { return Swip(word_).hot(); }
  bool cooling() const { return Swip(word_).cooling(); }
  // Only of a hot reference.
  uint32_t frame() const {
    ENGINE_RACE_ASSERT(hot());
    return Swip(word_).number();
  }
  // This record with its value in `frame`, or in `slot` of the log.
  ValueRef InFrame(uint32_t frame) const { return FromWord(Swip(word_).In(frame).word()); }
  ValueRef InSlot(uint32_t slot) const { return FromWord(Swip(word_).At(slot).word()); }
  // A hot reference with and without the cooling bit.
  ValueRef Cooling() const { return FromWord(Swip(word_).Cooling().word()); }
  ValueRef Heated() const { return FromWord(Swip(word_).Heated().word()); }
  uint32_t value_checksum() const {
    return static_cast<uint32_t>((word_ >> format::kSlotBits) & format::kChecksumMask);
  }
  bool tombstone() const { return (word_ & kTombstoneBit) != 0; }
  // True unless the record is a tombstone or hot.
  bool leads_to_slot() const { return (word_ & (kTombstoneBit | Swip::kHotBit)) == 0; }

  // Stands for a record that does not exist, or that is not known: a tombstone that was never
  // written.
  static ValueRef None() {
    ValueRef ref(0, 0, true);
    ref.word_ |= kNoneBit;
    return ref;
  }
  bool none() const { return (word_ & kNoneBit) != 0; }

  // As extents keep it. Not of a hot reference.
  uint64_t word() const {
    ENGINE_RACE_ASSERT(!hot());
    return word_;
  }
  // Whether a word of an extent can be that of a record: it leads to a slot.
  static bool IsSlotWord(uint64_t word) { return word < kTombstoneBit; }
  static ValueRef FromWord(uint64_t word) {
    ValueRef ref;
    ref.word_ = word;
    return ref;
  }

  friend bool operator==(ValueRef a, ValueRef b) { return a.word_ == b.word_; }

 private:
  static constexpr uint64_t kTombstoneBit = uint64_t{1}
                                            << (format::kSlotBits + format::kChecksumBits);
  static constexpr uint64_t kNoneBit = uint64_t{1} << 61;
  static_assert(format::kSlotBits == Swip::kNumberBits);
  static_assert(kTombstoneBit < kNoneBit);
  static_assert((kNoneBit & Swip::kTagMask) == 0);

  uint64_t word_ = 0;
};
static_assert(sizeof(ValueRef) == 8);

struct IndexEntry {
  uint64_t key = 0;
  ValueRef ref;
};
static_assert(sizeof(IndexEntry) == 16);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VALUE_REF_H_
