// The parts of one bucket in key order, and which keys belong to each.
//
// Thread safety: const calls from any thread, beside nothing that changes the row or a delta in it.
#ifndef ENGINE_RACE_INDEX_PART_ROW_H_
#define ENGINE_RACE_INDEX_PART_ROW_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/index.h"
#include "engine_race/index/part.h"

namespace engine_race {

class PartRow {
 public:
  using Parts = std::vector<std::unique_ptr<Part>>;

  PartRow() = default;
  // Of `parts`, ascending and disjoint, none empty. std::bad_alloc.
  explicit PartRow(Parts parts);
  // Of one part without records. std::bad_alloc.
  static PartRow OfNothing();

  bool empty() const { return parts_.empty(); }
  size_t size() const { return parts_.size(); }
  Part& part(size_t index) const {
    ENGINE_RACE_ASSERT(index < parts_.size());
    return *parts_[index];
  }
  // Of a row that is not empty: the part that `key` belongs to, and the smallest key that belongs
  // to a part; that of the first one counts as zero.
  size_t PartOf(uint64_t key) const;
  uint64_t first_key(size_t index) const { return bounds_[index]; }

  // As the calls of Part, of the part that `key` belongs to.
  RefWord* Locate(uint64_t key) const { return empty() ? nullptr : part(PartOf(key)).Locate(key); }
  RefWord* LocateFrame(uint64_t key, uint32_t frame, bool* newest) const {
    return empty() ? nullptr : part(PartOf(key)).LocateFrame(key, frame, newest);
  }
  template <typename ReadFn>
  bool FindAt(uint64_t key, uint64_t epoch, const ReadFn& read, ValueRef* ref) const {
    return !empty() && part(PartOf(key)).FindAt(key, epoch, read, ref);
  }

  // As the calls of BucketIndex. Collect: false when it stopped at the limit; std::bad_alloc.
  bool Collect(uint64_t first_key, uint64_t last_key, uint64_t epoch, const FrameSlots& frames,
               size_t max_entries, std::vector<IndexEntry>* entries) const;
  size_t FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, const FrameSlots& frames,
                   std::span<uint64_t> keys) const;
  size_t LastKeys(uint64_t first_key, uint64_t last_key, uint64_t epoch, const FrameSlots& frames,
                  std::span<uint64_t> keys) const;
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;

  // Of the row itself; and, by a walk, of its parts beside their histories, and of these.
  uint64_t table_bytes() const {
    return parts_.capacity() * sizeof(parts_[0]) + bounds_.capacity() * sizeof(bounds_[0]);
  }
  uint64_t memory_bytes() const;
  uint64_t history_bytes() const;

  void Swap(PartRow* other) noexcept {
    parts_.swap(other->parts_);
    bounds_.swap(other->bounds_);
  }
  // Room for the row in which `by` takes the place of `count` parts from `index` on: to be given to
  // Replace. std::bad_alloc.
  PartRow MakeRoom(size_t index, size_t count, const PartReplacement& by) const;
  // Never fails. What was replaced ends in *room.
  void Replace(size_t index, size_t count, PartReplacement* by, PartRow* room) noexcept;

 private:
  bool IsConsistent() const;

  // bounds_[i] is the smallest key that belongs to parts_[i]; bounds_[0] counts as zero.
  std::vector<uint64_t> bounds_;
  Parts parts_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_ROW_H_
