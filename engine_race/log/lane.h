// One lane carries the groups of one kind (values or key entries) of a bucket from staging to the
// log. Groups are numbered from 0. Each is staged in a place while it fills and until its write has
// completed. Writes may complete out of order, but the watermark only ever counts a prefix. A place
// takes its next group once its old one is part of that prefix and no reader has it pinned.
//
// Not synchronised: guarded by its bucket's lock. Invariants: the watermark is a multiple of the
// group and counts a prefix. Begun groups that are not part of it have a place each. A place that
// is written or pinned takes no other group.
#ifndef ENGINE_RACE_LOG_LANE_H_
#define ENGINE_RACE_LOG_LANE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"

namespace engine_race {

class Lane {
 public:
  // The state that Open finds: records [watermark, record_count) are staged, in the places that
  // `places_word` names. `group_records` is a power of two. False when the word names one place
  // twice or one that is not there.
  bool Init(uint32_t group_records, uint32_t place_count, uint64_t watermark, uint64_t record_count,
            uint32_t places_word) {
    ENGINE_RACE_ASSERT(std::has_single_bit(group_records) && place_count <= format::kMaxPlaces);
    ENGINE_RACE_ASSERT(watermark % group_records == 0 && watermark <= record_count);
    group_shift_ = static_cast<uint32_t>(std::countr_zero(group_records));
    place_count_ = place_count;
    watermark_ = watermark;
    places_word_ = places_word;
    places_ = {};
    for (uint32_t shift = 0; shift < format::kPlacesWordBits; shift += format::kPlaceBits) {
      if (((places_word >> shift) & kPlaceMask) >= format::kMaxPlaces) return false;
    }
    for (uint64_t first = watermark_; first < record_count; first += group_records) {
      const uint32_t place = PlaceOf(first);
      if (place >= place_count_ || places_[place].state != State::kFree) return false;
      places_[place].state = State::kFilling;
    }
    return true;
  }

  uint32_t group_records() const { return uint32_t{1} << group_shift_; }
  // Where record `slot` is within its group.
  uint32_t IndexOf(uint64_t slot) const {
    return static_cast<uint32_t>(slot) & (group_records() - 1);
  }
  // The logged watermark: groups below it are in the log for good. A multiple of the group.
  uint64_t watermark() const { return watermark_; }
  // The places word as it stands now, coded as the format says.
  uint32_t places_word() const { return places_word_; }

  // The place of the group of record `slot`; the group must have begun and not be in the log yet.
  uint32_t PlaceOf(uint64_t slot) const { return PlaceInWord(places_word_, slot >> group_shift_); }

  bool BeginsGroup(uint64_t slot) const { return IndexOf(slot) == 0; }
  // The first record from `slot` on that begins a group.
  uint64_t NextGroup(uint64_t slot) const {
    return (slot + group_records() - 1) >> group_shift_ << group_shift_;
  }

  // Whether record `slot`, the next one, has a place or can get one.
  bool HasRoomFor(uint64_t slot) const { return !BeginsGroup(slot) || FreePlace() < place_count_; }

  // How many groups begin with the records [slot, slot + count).
  uint64_t BegunBy(uint64_t slot, uint64_t count) const {
    return (NextGroup(slot + count) - NextGroup(slot)) >> group_shift_;
  }
  // Whether the records [slot, slot + count), the next ones, have places or can get them.
  bool HasRoomFor(uint64_t slot, uint64_t count) const {
    uint64_t free = 0;
    for (uint32_t place = 0; place < place_count_; ++place) free += IsFree(place);
    return BegunBy(slot, count) <= free;
  }
  // Whether they can ever have places at the same time.
  bool CanHold(uint64_t slot, uint64_t count) const {
    return BegunBy(slot, count) + (BeginsGroup(slot) ? 0 : 1) <= place_count_;
  }

  // The lowest free place, so that a bucket uses no more of them than it needs; place_count_ when
  // there is none.
  uint32_t FreePlace() const {
    uint32_t place = 0;
    while (place < place_count_ && !IsFree(place)) ++place;
    return place;
  }

  // Where record `slot`, the next one, is to be staged; place_count_ when it has to wait.
  uint32_t NextPlace(uint64_t slot) const {
    return BeginsGroup(slot) ? FreePlace() : PlaceOf(slot);
  }

  // The places word once the group that begins with `slot` has taken `place`.
  uint32_t WordWith(uint64_t slot, uint32_t place) const {
    ENGINE_RACE_ASSERT(place < place_count_);
    return (places_word_ & ~(kPlaceMask << ShiftOf(slot))) | place << ShiftOf(slot);
  }

  // Gives the group that begins with `slot` the place that FreePlace() named.
  void TakePlace(uint64_t slot, uint32_t place) {
    ENGINE_RACE_ASSERT(BeginsGroup(slot) && IsFree(place));
    places_[place].state = State::kFilling;
    places_word_ = WordWith(slot, place);
  }

  // Takes back what TakePlace did: the group that begins with `slot` holds no counted record.
  void GiveBackPlace(uint64_t slot) {
    Place& place = PlaceOfGroup(slot >> group_shift_);
    ENGINE_RACE_ASSERT(BeginsGroup(slot) && place.state == State::kFilling);
    place.state = State::kFree;
  }

  // A full group below `record_count` that nobody writes: one that has just been filled, or one
  // whose write failed. False when there is none.
  bool FindIdleFullGroup(uint64_t record_count, uint64_t* group) const {
    for (uint64_t first = watermark_; first + group_records() <= record_count;
         first += group_records()) {
      if (places_[PlaceOf(first)].state == State::kFilling) {
        *group = first >> group_shift_;
        return true;
      }
    }
    return false;
  }

  // Whether somebody writes the group, or a part of it.
  bool Writing(uint64_t group) const {
    const uint64_t first = group << group_shift_;
    return first >= watermark_ && places_[PlaceOf(first)].state == State::kWriting;
  }

  void BeginWrite(uint64_t group) {
    ENGINE_RACE_ASSERT(PlaceOfGroup(group).state == State::kFilling);
    PlaceOfGroup(group).state = State::kWriting;
  }

  // True when the watermark has moved.
  bool EndWrite(uint64_t group, bool ok) {
    ENGINE_RACE_ASSERT(PlaceOfGroup(group).state == State::kWriting);
    PlaceOfGroup(group).state = ok ? State::kWritten : State::kFilling;
    const uint64_t before = watermark_;
    // A group that has not begun has no place. Its stale bits name one that is free or filling,
    // because then every begun group is in the log. So the loop ends there.
    while (places_[PlaceOf(watermark_)].state == State::kWritten) {
      places_[PlaceOf(watermark_)].state = State::kFree;
      watermark_ += group_records();
    }
    return watermark_ != before;
  }

  // Ends the write of a part of a group that still fills, or that has filled up meanwhile.
  void EndPartialWrite(uint64_t group) {
    ENGINE_RACE_ASSERT(PlaceOfGroup(group).state == State::kWriting);
    PlaceOfGroup(group).state = State::kFilling;
  }

  // Whether no group is being written or awaits an earlier one, and no place is pinned.
  bool IsIdle() const { return std::ranges::none_of(places_, &Place::IsBusy); }

  // For readers of staged records: a pinned place is not given away.
  void Pin(uint32_t place) { ++places_[place].pins; }
  void Unpin(uint32_t place) {
    ENGINE_RACE_ASSERT(places_[place].pins > 0);
    --places_[place].pins;
  }

 private:
  static constexpr uint32_t kPlaceMask = (uint32_t{1} << format::kPlaceBits) - 1;

  enum class State : uint8_t { kFree, kFilling, kWriting, kWritten };
  struct Place {
    bool IsBusy() const { return pins != 0 || state > State::kFilling; }
    uint32_t pins = 0;
    State state = State::kFree;
  };

  bool IsFree(uint32_t place) const {
    return places_[place].state == State::kFree && places_[place].pins == 0;
  }
  uint32_t ShiftOf(uint64_t slot) const {
    return static_cast<uint32_t>((slot >> group_shift_) % format::kMaxPlaces) * format::kPlaceBits;
  }
  Place& PlaceOfGroup(uint64_t group) { return places_[PlaceOf(group << group_shift_)]; }

  uint64_t watermark_ = 0;
  // Groups are powers of two: a division by their size would cost as much as a lock.
  uint32_t group_shift_ = 0;
  uint32_t place_count_ = 0;
  uint32_t places_word_ = 0;
  std::array<Place, format::kMaxPlaces> places_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LANE_H_
