// The view of a sorted run that lookups search: see sorted_run.h.
//
// A small value; thread-safe like the run, which outlives it.
#ifndef ENGINE_RACE_INDEX_RUN_VIEW_H_
#define ENGINE_RACE_INDEX_RUN_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/key_scan.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/index/cell_map.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/run_window.h"

namespace engine_race {

// The parts of a run that a lookup needs. A SortedRun owns the memory. Copies lie where lookups
// begin.
class RunView {
 public:
  RunView() = default;
  RunView(const CellMap& map, size_t count, const uint64_t* keys, RefWord* refs,
          const uint32_t* cells)
      : map_(map), keys_(keys), refs_(refs), cells_(cells), count_(count) {}

  // Looks where an evenly spread key would be. True when the key is there, with its word.
  //
  // `still_valid` is called once the radix table has been read. If it says no, the memory of the
  // run may have been given back, and the search ends at once. If the memory is given back later,
  // the answer may be wrong, and nothing else happens.
  template <typename StillValidFn>
  bool LocateNearGuess(uint64_t key, RefWord** word, const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(key, &guess, still_valid)) return false;
    // The reference lies near the guess. Fetched now, it does not wait for the keys.
    __builtin_prefetch(refs_ + guess.rank);
    return LocateIn(WindowOf(guess), key, word);
  }

  // Searches the whole cell of the key. Otherwise like LocateNearGuess.
  template <typename StillValidFn>
  bool LocateInCell(uint64_t key, RefWord** word, const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(key, &guess, still_valid)) return false;
    const size_t rank = guess.begin + LowerBound(keys_ + guess.begin, guess.size, key);
    if (keys_[rank] != key) return false;
    *word = refs_ + rank;
    return true;
  }

  // A lookup in steps. Each fetches what the next one reads, so that the steps of many lookups can
  // wait for memory together. LocateIn is the last one.

  // False when the map does not contain the key.
  bool PrefetchCell(uint64_t key, CellMap::Position* position) const {
    if (!map_.Contains(key)) return false;
    *position = map_.PositionOf(key);
    __builtin_prefetch(cells_ + position->cell);
    return true;
  }
  // Sets *window and gives its width in keys: kScanKeyCount around the guess, or the whole cell if
  // that has more than kWideCellKeys. 0, and no window, when `still_valid` says no.
  template <typename StillValidFn>
  uint32_t PrefetchWindow(const CellMap::Position& position, RunWindow* window,
                          const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(position, &guess, still_valid)) return 0;
    if (guess.size > kWideCellKeys) [[unlikely]] {
      *window = {keys_ + guess.begin, refs_ + guess.begin};
      __builtin_prefetch(window->keys + guess.size / 2 - 1);
      return guess.size;
    }
    *window = WindowOf(guess);
    __builtin_prefetch(window->keys);
    __builtin_prefetch(window->keys + kScanKeyCount - 1);
    __builtin_prefetch(refs_ + guess.rank);
    return kScanKeyCount;
  }
  // Narrows the window to the half that the key belongs to, and gives the new width. To be repeated
  // until it is at most kScanKeyCount. Needs no `still_valid`: memory that was given back reads as
  // zeros, and the window stays inside its cell.
  static uint32_t Narrow(uint64_t key, uint32_t width, RunWindow* window) {
    const uint32_t half = width / 2;
    const uint32_t passed = window->keys[half - 1] < key ? half : 0;
    *window = {window->keys + passed, window->refs + passed};
    const uint32_t rest = width - half;
    __builtin_prefetch(window->keys + rest / 2 - 1);
    if (rest <= kScanKeyCount) __builtin_prefetch(window->refs + rest / 2);
    return rest;
  }
  // True when the key is in the window, with its word.
  static bool LocateIn(const RunWindow& window, uint64_t key, RefWord** word) {
    const size_t below = CountBelow(window.keys, key);
    if (window.keys[below] != key) [[unlikely]] {
      return false;
    }
    *word = window.refs + below;
    return true;
  }

  // How many keys are below `key`, searched where an evenly spread key would be, else in its whole
  // cell. False when the map does not contain the key, or `still_valid` says no. If the run's
  // memory is given back later, the rank may be wrong, but it is below count() + kScanKeyCount.
  template <typename StillValidFn>
  bool RankQuickly(uint64_t key, size_t* rank, const StillValidFn& still_valid) const {
    Guess guess;
    if (!GuessAt(key, &guess, still_valid)) return false;
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

  // Copies the keys from `rank` on. The run must have keys.size() of them, unless its memory was
  // given back.
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

  RunWindow WindowOf(const Guess& guess) const {
    const size_t begin = guess.window_begin();
    return {keys_ + begin, refs_ + begin};
  }

  // False when the map does not contain the key, or when `still_valid` says no.
  template <typename StillValidFn>
  [[gnu::always_inline]] bool GuessAt(uint64_t key, Guess* guess,
                                      const StillValidFn& still_valid) const {
    return map_.Contains(key) && GuessAt(map_.PositionOf(key), guess, still_valid);
  }
  template <typename StillValidFn>
  [[gnu::always_inline]] bool GuessAt(const CellMap::Position& position, Guess* guess,
                                      const StillValidFn& still_valid) const {
    guess->begin = cells_[position.cell];
    guess->size = cells_[position.cell + 1] - guess->begin;
    if (!still_valid()) [[unlikely]] {
      return false;
    }
    guess->rank = guess->begin + position.FractionOf(guess->size);
    return true;
  }

  CellMap map_;
  const uint64_t* keys_ = nullptr;
  RefWord* refs_ = nullptr;
  const uint32_t* cells_ = nullptr;
  size_t count_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_RUN_VIEW_H_
