// A sorted run: ascending keys, references beside them, and a radix table. The radix table narrows
// a search to about sixteen keys before the first comparison. A run is immutable, except that its
// references may be swizzled and unswizzled.
//
// Keys lie apart from references, so that a search touches few cache lines. Within a cell a lookup
// looks near the place of an evenly spread key, a few keys to both sides. If the key is not there,
// it searches the whole cell. Keys that crowd only make that search longer.
//
// Readers may find a published run without a lock. Its memory is freed once they have left the
// epoch.
//
// Thread safety: const calls from any thread. Owns its memory; movable. A published run is
// destroyed without an index lock.
#ifndef ENGINE_RACE_INDEX_SORTED_RUN_H_
#define ENGINE_RACE_INDEX_SORTED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/index/cell_map.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/run_view.h"
#include "engine_race/l1/limbo.h"

namespace engine_race {

class SortedRun {
 public:
  // With 16 keys in a cell the radix table takes a quarter of a byte a key. So the caches hold more
  // of it.
  static constexpr uint32_t kKeysPerCell = 16;
  // The memory of a record, about: key, reference, and its part of the table.
  static constexpr uint64_t kBytesPerRecord = 17;
  static uint32_t CellCountFor(size_t key_count) {
    return static_cast<uint32_t>(key_count / kKeysPerCell + 1);
  }

  SortedRun() = default;

  // Makes room for `key_count` keys and for the cells of `map`, in a slice from `slabs`. Without
  // `slabs` the memory is allocated separately, at `placement`. The caller fills keys, refs, and
  // the cells, or calls FillCells.
  static Status Create(size_t key_count, const CellMap& map, SlabAllocator* slabs, SortedRun* run,
                       const Placement& placement);

  uint64_t* mutable_keys() { return keys_; }
  RefWord* mutable_refs() { return refs_; }
  // cell_count() + 1 of them. cells[c] is the number of keys in the cells before `c`.
  uint32_t* mutable_cells() { return cells_; }
  // Computes the cells from the keys.
  void FillCells();

  size_t count() const { return count_; }
  const uint64_t* keys() const { return keys_; }
  const RefWord* refs() const { return refs_; }
  uint32_t cell_count() const { return cell_count_; }
  // Not of an empty run.
  uint64_t min_key() const { return view_.map().min_key(); }
  uint64_t max_key() const { return view_.map().max_key(); }

  // How many keys are below `key`.
  size_t Rank(uint64_t key) const {
    ENGINE_RACE_ASSERT(count_ == 0 || cells_[cell_count_] == count_);
    if (view_.map().Contains(key)) return view_.RankInside(key);
    return count_ == 0 || key < min_key() ? 0 : count_;
  }
  // The word of `key`; null when it is not there.
  RefWord* Locate(uint64_t key) const { return view_.Locate(key); }
  const RunView& view() const { return view_; }
  // Says that readers find the run from here on, until it is hidden from them. They are inside the
  // epoch of `limbo`, which outlives the run. Not of an empty run.
  void NotePublished(l1::Limbo* limbo) const noexcept { memory_->limbo = limbo; }

  size_t memory_bytes() const {
    return memory_ == nullptr ? 0 : sizeof(Memory) + memory_->slice.footprint_bytes();
  }

 private:
  struct Memory final : l1::Retirable {
    PartSlice slice;
    l1::Limbo* limbo = nullptr;  // null: no reader has found it
  };
  struct MemoryDeleter {
    void operator()(Memory* memory) const noexcept;
  };

  RunView view_;
  uint32_t cell_count_ = 0;
  size_t count_ = 0;
  uint64_t* keys_ = nullptr;
  RefWord* refs_ = nullptr;
  uint32_t* cells_ = nullptr;
  std::unique_ptr<Memory, MemoryDeleter> memory_;  // null if the run is empty
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_SORTED_RUN_H_
