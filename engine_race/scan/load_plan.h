// Which reads bring the values of some records, and where each value will lie.
//
// A plan deals in places: a place is kValueBytes of buffer. Neighbouring slots become one read,
// small gaps between them are read along, and no read crosses a multiple of places_per_block, so
// places can be laid out over separate blocks afterwards, nor a multiple of unit_slots, where the
// slots of a bucket may go on in another file. Values that are not in the value log yet
// get a place but no read.
//
// Not synchronised; a planner keeps scratch memory between calls.
// Invariant: a plan has one place for each entry, and reads share no place.
#ifndef ENGINE_RACE_SCAN_LOAD_PLAN_H_
#define ENGINE_RACE_SCAN_LOAD_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/index/index.h"

namespace engine_race {

// Of a place: its value is to be copied out of staging first.
inline constexpr uint32_t kStagedPlace = uint32_t{1} << 31;
// Instead of a place: the value could not be read, or failed its check.
inline constexpr uint32_t kUnreadablePlace = ~uint32_t{0};
inline constexpr uint32_t kCorruptPlace = ~uint32_t{0} - 1;
inline constexpr uint32_t kMaxPlaces = kStagedPlace - 2;

struct PlannedRead {
  uint64_t first_slot = 0;
  uint32_t bucket = 0;
  uint32_t slot_count = 0;
  uint32_t first_place = 0;
};

struct LoadPlan {
  // The place of each entry, in the entries' order.
  std::vector<uint32_t> places;
  std::vector<PlannedRead> reads;
  uint32_t place_count = 0;

  void Clear() {
    places.clear();
    reads.clear();
    place_count = 0;
  }
};

class LoadPlanner {
 public:
  explicit LoadPlanner(uint32_t places_per_block, uint64_t unit_slots = kMaxBucketRecords)
      : places_per_block_(places_per_block), unit_slots_(unit_slots) {}

  // Appends the entries of one bucket. Slots from flushed_count up are staged. At most
  // spare_places go to gaps.
  void Add(uint32_t bucket, std::span<const IndexEntry> entries, uint64_t flushed_count,
           uint32_t spare_places, LoadPlan* plan);

 private:
  // Fills order_ with (slot << 32 | position in `entries`) of the flushed entries, by slot.
  void SortBySlot(std::span<const IndexEntry> entries, uint64_t flushed_count);
  // Cuts a run of slots into reads that respect the blocks and the units.
  void EmitRun(uint32_t bucket, uint64_t first_slot, uint64_t slot_count, LoadPlan* plan);

  const uint32_t places_per_block_;
  const uint64_t unit_slots_;
  std::vector<uint64_t> order_;
  std::vector<uint32_t> by_slot_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_LOAD_PLAN_H_
