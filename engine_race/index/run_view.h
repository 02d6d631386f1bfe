// The view of a sorted run that lookups search: see sorted_run.h.
//
// A small value; thread-safe like the run, which outlives it.
#ifndef ENGINE_RACE_INDEX_RUN_VIEW_H_
#define ENGINE_RACE_INDEX_RUN_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine_race/base/key_scan.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/index/cell_map.h"
#include "engine_race/index/ref_word.h"

namespace engine_race {

// The parts of a run that a lookup needs. A SortedRun owns the memory. Copies lie where lookups
// begin.
class RunView {
 public:
  RunView() = default;
  RunView(const CellMap& map, size_t count, const uint64_t* keys, RefWord* refs,
          const uint32_t* cells)
      : map_(map), keys_(keys), refs_(refs), cells_(cells), count_(count) {}

  // Looks where an evenly spread key would be. Null when the key is not there; else its word.
  [[gnu::always_inline]] RefWord* LocateNearGuess(uint64_t key) const {
    if (!map_.Contains(key)) return nullptr;
    const Guess guess = GuessAt(map_.PositionOf(key));
    // The reference lies near the guess. Fetched now, it does not wait for the keys.
    __builtin_prefetch(refs_ + guess.rank);
    return LocateInWindow(guess.window_begin(), key);
  }
  // Looks among the kScanKeyCount keys from `rank` on, which may be a rank in another run.
  [[gnu::always_inline]] RefWord* LocateInWindow(size_t rank, uint64_t key) const {
    if (rank >= count_) return nullptr;
    const size_t at = rank + CountBelow(keys_ + rank, key);
    // Not in the padding behind the keys.
    return at < count_ && keys_[at] == key ? refs_ + at : nullptr;
  }
  // Looks near the guess, then in the whole cell of the key.
  RefWord* Locate(uint64_t key) const {
    RefWord* const near = LocateNearGuess(key);
    if (near != nullptr || !map_.Contains(key)) return near;
    const size_t rank = RankInside(key);
    return keys_[rank] == key ? refs_ + rank : nullptr;
  }

  // A lookup in steps. Each fetches what the next one reads, so that the steps of many lookups can
  // wait for memory together. LocateInWindow is the last one.

  // False when the map does not contain the key.
  bool PrefetchCell(uint64_t key, CellMap::Position* position) const {
    if (!map_.Contains(key)) return false;
    *position = map_.PositionOf(key);
    __builtin_prefetch(cells_ + position->cell);
    return true;
  }
  // Sets *rank to the beginning of the window and gives its width in keys. That is kScanKeyCount
  // around the guess, or the whole cell if it has more than kWideCellKeys.
  uint32_t PrefetchWindow(const CellMap::Position& position, uint32_t* rank) const {
    const Guess guess = GuessAt(position);
    if (guess.size > kWideCellKeys) [[unlikely]] {
      *rank = guess.begin;
      __builtin_prefetch(keys_ + *rank + guess.size / 2 - 1);
      return guess.size;
    }
    *rank = static_cast<uint32_t>(guess.window_begin());
    __builtin_prefetch(keys_ + *rank);
    __builtin_prefetch(keys_ + *rank + kScanKeyCount - 1);
    __builtin_prefetch(refs_ + guess.rank);
    return kScanKeyCount;
  }
  // Narrows the window to the half that the key belongs to, and gives the new width. To be repeated
  // until it is at most kScanKeyCount.
  uint32_t Narrow(uint64_t key, uint32_t width, uint32_t* rank) const {
    const uint32_t half = width / 2;
    if (keys_[*rank + half - 1] < key) *rank += half;
    const uint32_t rest = width - half;
    __builtin_prefetch(keys_ + *rank + rest / 2 - 1);
    if (rest <= kScanKeyCount) __builtin_prefetch(refs_ + *rank + rest / 2);
    return rest;
  }

  // How many keys are below `key`, searched where an evenly spread key would be, else in its whole
  // cell. False when the map does not contain the key.
  bool RankQuickly(uint64_t key, size_t* rank) const {
    if (!map_.Contains(key)) return false;
    const Guess guess = GuessAt(map_.PositionOf(key));
    const size_t window = guess.window_begin();
    // The caller reads the keys behind the rank next. Fetched now, they do not wait for the rank.
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

  // Copies the keys from `rank` on. The run must have keys.size() of them.
  void CopyKeys(size_t rank, std::span<uint64_t> keys) const {
    const uint64_t* const from = keys_ + rank;
    size_t i = 0;
    // Pieces of a fixed size compile to a few wide moves.
    for (; i + kCopiedAtOnce <= keys.size(); i += kCopiedAtOnce) {
      std::memcpy(&keys[i], from + i, kCopiedAtOnce * sizeof(uint64_t));
    }
    for (; i < keys.size(); ++i) keys[i] = from[i];
  }

  // How many keys are below `key`. The map must contain it.
  size_t RankInside(uint64_t key) const {
    const uint32_t cell = map_.Of(key);
    const uint32_t begin = cells_[cell];
    return begin + LowerBound(keys_ + begin, cells_[cell + 1] - begin, key);
  }

  const CellMap& map() const { return map_; }
  size_t count() const { return count_; }

 private:
  static constexpr size_t kCopiedAtOnce = 8;
  // In a cell of more keys they are not spread evenly.
  static constexpr uint32_t kWideCellKeys = 32;

  // Where an evenly spread key would be, and the cell that it would be in.
  struct Guess {
    uint32_t begin;
    uint32_t size;
    size_t rank;

    // The first of the kScanKeyCount keys around the guess.
    size_t window_begin() const { return rank > kScanKeyCount / 2 ? rank - kScanKeyCount / 2 : 0; }
  };

  [[gnu::always_inline]] Guess GuessAt(const CellMap::Position& position) const {
    const uint32_t begin = cells_[position.cell];
    const uint32_t size = cells_[position.cell + 1] - begin;
    return {begin, size, begin + position.FractionOf(size)};
  }

  CellMap map_;
  const uint64_t* keys_ = nullptr;
  RefWord* refs_ = nullptr;
  const uint32_t* cells_ = nullptr;
  size_t count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_VIEW_H_
