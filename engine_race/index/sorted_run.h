// The immutable part of a part: ascending keys, their references beside them, and a radix table
// that narrows a search to about sixteen keys before the first comparison. (Of a reference only the
// record is immutable, not whether its value lies in a frame.)
//
// Keys lie apart from references so that a search touches as few cache lines as it can. Within a
// cell a lookup looks where an evenly spread key would be, a few keys to both sides; a key that is
// not there is searched for in the whole cell. Keys that crowd only make that search longer.
//
// Thread safety: const calls from any thread. Owns its memory; movable.
#ifndef ENGINE_RACE_INDEX_SORTED_RUN_H_
#define ENGINE_RACE_INDEX_SORTED_RUN_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "engine_race/base/status.h"
#include "engine_race/index/cell_map.h"
#include "engine_race/index/index.h"
#include "engine_race/index/key_scan.h"
#include "engine_race/index/lower_bound.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/index/ref_word.h"

#include "engine_race/base/assert.h"

namespace engine_race {

// What a lookup needs of a run. Owned by a SortedRun, copied to where lookups begin.
class RunView {
 public:
  RunView() = default;
  RunView(const CellMap& map, size_t count, const uint64_t* keys, RefWord* refs,
          const uint32_t* cells)
      : map_(map), keys_(keys), refs_(refs), cells_(cells), count_(count) {}

  // Looks where an evenly spread key would be; true when it is there, with its word.
  //
  // `still_valid` is asked once the table has been read: when it says no, the table's memory may
  // have been taken away meanwhile, and the search ends without another access. Whatever the keys
  // and references then read as does no harm beyond a wrong answer.
  template <typename StillValidFn>
  bool LocateNearGuess(uint64_t key, RefWord** word, const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(key, &guess, still_valid)) return false;
    // The reference will be near the guess; this way fetching it does not wait for the keys.
    __builtin_prefetch(refs_ + guess.rank);
    const size_t window = guess.window();
    const size_t rank = window + CountBelow(keys_ + window, key);
    if (keys_[rank] != key) [[unlikely]] {
      return false;
    }
    *word = refs_ + rank;
    return true;
  }

  // How many keys are below `key`, looked for where an evenly spread key would be, else in its
  // whole cell; false when the map does not contain it. `still_valid` as above: what the keys then
  // read as does no harm beyond a wrong rank, which is below count() + kScanKeyCount.
  template <typename StillValidFn>
  bool RankQuickly(uint64_t key, size_t* rank, const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(key, &guess, still_valid)) return false;
    const size_t window = guess.window();
    // What follows will be asked for next, and does not have to wait until the rank is known.
    __builtin_prefetch(keys_ + guess.rank + kScanKeyCount);
    const size_t near = window + CountBelow(keys_ + window, key);
    const bool above_last = near == 0 || keys_[near - 1] < key;
    if (above_last && keys_[near] >= key) [[likely]] {
      *rank = near;
    } else {
      *rank = guess.begin + LowerBound(keys_ + guess.begin, guess.size, key);
    }
    return true;
  }

  // There are keys.size() from `rank` on, or memory that was taken away.
  void CopyKeys(size_t rank, std::span<uint64_t> keys) const {
    const uint64_t* const from = keys_ + rank;
    size_t i = 0;
    // In pieces of a fixed size, which the compiler makes into a few wide moves.
    for (; i + kCopiedAtOnce <= keys.size(); i += kCopiedAtOnce) {
      std::memcpy(&keys[i], from + i, kCopiedAtOnce * sizeof(uint64_t));
    }
    for (; i < keys.size(); ++i) keys[i] = from[i];
  }

  // How many keys are below `key`, which the map contains.
  size_t RankInside(uint64_t key) const {
    const uint32_t cell = map_.Of(key);
    const uint32_t begin = cells_[cell];
    return begin + LowerBound(keys_ + begin, cells_[cell + 1] - begin, key);
  }

  const CellMap& map() const { return map_; }
  size_t count() const { return count_; }

 private:
  static constexpr size_t kCopiedAtOnce = 8;

  // Where an evenly spread key would be, and the cell that it would be in.
  struct Guess {
    uint32_t begin;
    uint32_t size;
    size_t rank;

    // The first of the kScanKeyCount keys around it.
    size_t window() const { return rank > kScanKeyCount / 2 ? rank - kScanKeyCount / 2 : 0; }
  };

  // False when the map does not contain the key, or `still_valid` says no.
  template <typename StillValidFn>
  [[gnu::always_inline]] bool GuessAt(uint64_t key, Guess* guess,
                                      const StillValidFn& still_valid) const {
    if (!map_.Contains(key)) return false;
    const CellMap::Place place = map_.PlaceOf(key);
    guess->begin = cells_[place.cell];
    guess->size = cells_[place.cell + 1] - guess->begin;
    if (!still_valid()) [[unlikely]] {
      return false;
    }
    guess->rank = guess->begin + place.FractionOf(guess->size);
    return true;
  }

  CellMap map_;
  const uint64_t* keys_ = nullptr;
  RefWord* refs_ = nullptr;
  const uint32_t* cells_ = nullptr;
  size_t count_ = 0;
};

class SortedRun {
 public:
  // The table then costs a quarter of a byte a key, and the caches hold more of it.
  static constexpr uint32_t kKeysPerCell = 16;
  static uint32_t CellCountFor(size_t key_count) {
    return static_cast<uint32_t>(key_count / kKeysPerCell + 1);
  }

  SortedRun() = default;

  // Room for `key_count` keys and as many cells as `map` has, in memory from `slabs`. When that is
  // null, the run gets a block of its own, at `placement`. The caller fills keys, refs and either
  // the cells or FillCells.
  static Status Create(size_t key_count, const CellMap& map, SlabAllocator* slabs, SortedRun* run,
                       const Placement& placement = {});

  uint64_t* mutable_keys() { return keys_; }
  RefWord* mutable_refs() { return refs_; }
  // cell_count() + 1 of them: cells[c] is the number of keys in the cells before c.
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
  RefWord* Locate(uint64_t key) const {
    RefWord* word;
    if (view_.LocateNearGuess(key, &word, [] { return true; })) return word;
    const size_t rank = Rank(key);
    return rank == count_ || keys_[rank] != key ? nullptr : refs_ + rank;
  }
  const RunView& view() const { return view_; }
  // See MemoryBlock.
  std::shared_ptr<const Region> mapping() const { return block_.mapping(); }

  size_t memory_bytes() const { return block_.footprint_bytes(); }

 private:
  RunView view_;
  uint32_t cell_count_ = 0;
  size_t count_ = 0;
  uint64_t* keys_ = nullptr;
  RefWord* refs_ = nullptr;
  uint32_t* cells_ = nullptr;
  MemoryBlock block_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_SORTED_RUN_H_
