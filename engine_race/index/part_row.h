// The parts of one bucket in key order, and which keys belong to each.
//
// Thread safety: const calls from any thread, while nothing changes the row or a delta in it.
#ifndef ENGINE_RACE_INDEX_PART_ROW_H_
#define ENGINE_RACE_INDEX_PART_ROW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/part.h"
#include "engine_race/index/run_slices.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

class PartRow {
 public:
  using Parts = std::vector<std::unique_ptr<Part>>;

  PartRow() = default;
  // A row of `parts`: ascending and disjoint, none of them empty. May throw std::bad_alloc.
  explicit PartRow(Parts parts);
  // A row of one part without records. May throw std::bad_alloc.
  static PartRow OfNothing();

  bool empty() const { return parts_.empty(); }
  size_t size() const { return parts_.size(); }
  Part& part(size_t index) const {
    ENGINE_RACE_ASSERT(index < parts_.size());
    return *parts_[index];
  }
  // PartOf is the part that `key` belongs to, in a row that is not empty. first_key is the smallest
  // key that belongs to a part. The first part's counts as zero.
  size_t PartOf(uint64_t key) const;
  uint64_t first_key(size_t index) const { return bounds_[index]; }

  // The calls of Part, on the part that `key` belongs to.
  RefWord* Locate(uint64_t key, const BlockAccess& access) const {
    return empty() ? nullptr : part(PartOf(key)).Locate(key, access);
  }
  RefWord* LocateFrame(uint64_t key, uint32_t frame, const BlockAccess& access,
                       bool* newest) const {
    return empty() ? nullptr : part(PartOf(key)).LocateFrame(key, frame, access, newest);
  }
  template <typename ReadFn>
  bool Find(uint64_t key, uint64_t version, const BlockAccess& access, const ReadFn& read,
            ValueRef* ref) const {
    return !empty() && part(PartOf(key)).Find(key, version, access, read, ref);
  }

  // The keys, the version and the memory of one walk.
  struct Walk {
    uint64_t first_key;
    uint64_t last_key;
    uint64_t version;
    const FrameSlots& slots;
    const BlockFrames* blocks;
    RunSlices* slices;
    // Set when a part has become worth a merge. May be null.
    bool* wants_merge = nullptr;
  };
  // The calls of BucketIndex. False: a paged run needs slices->Load first, and nothing was found.
  // *complete of Collect is false when it stopped at the limit. They may throw std::bad_alloc.
  bool Collect(const Walk& walk, size_t max_entries, std::vector<IndexEntry>* entries,
               bool* complete) const;
  bool FirstKeys(const Walk& walk, std::span<uint64_t> keys, size_t* count) const;
  bool LastKeys(const Walk& walk, std::span<uint64_t> keys, size_t* count) const;
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;

  // The memory of the row itself; of the row and its parts without their histories; of the
  // histories. The last two walk over the parts.
  uint64_t own_bytes() const {
    return parts_.capacity() * sizeof(parts_[0]) + bounds_.capacity() * sizeof(bounds_[0]);
  }
  uint64_t memory_bytes() const;
  uint64_t history_bytes() const;
  RunCounts run_counts() const;

  void Swap(PartRow* other) noexcept {
    parts_.swap(other->parts_);
    bounds_.swap(other->bounds_);
  }
  // A row with room to replace `count` parts from `index` on by the parts of `by`. For Replace. May
  // throw std::bad_alloc.
  PartRow MakeRoom(size_t index, size_t count, const PartReplacement& by) const;
  // Never fails. The old row ends in *room, with the parts that were replaced.
  void Replace(size_t index, size_t count, PartReplacement* by, PartRow* room) noexcept;

 private:
  bool IsConsistent() const;
  // Calls visit(cursor) for the stretches of the walk in order, or from the back, until it answers
  // false. `max_count` is how many records the walk takes at most. False: see Collect.
  template <typename VisitFn>
  bool WalkParts(const Walk& walk, size_t max_count, bool from_back, const VisitFn& visit) const;

  // bounds_[i] is the smallest key that belongs to parts_[i]. bounds_[0] counts as zero.
  std::vector<uint64_t> bounds_;
  Parts parts_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_ROW_H_
