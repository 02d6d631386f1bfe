// A part: all that the index knows of one stretch of a bucket's keys, as a sorted run that never
// changes, a delta of newer records over it, and what live views may still show of what the run's
// records superseded.
//
// Thread safety: const calls from any thread, beside nothing that changes the delta.
#ifndef ENGINE_RACE_INDEX_PART_H_
#define ENGINE_RACE_INDEX_PART_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/delta.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/history.h"
#include "engine_race/index/index.h"
#include "engine_race/index/live_epochs.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

struct alignas(64) Part {
  SortedRun run;
  Delta delta;
  // Null when there is nothing in it. A sweep may replace it under the lock of the bucket's index.
  std::shared_ptr<const History> history;

  // The delta's word, else the run's, else null; of tombstones too.
  RefWord* Locate(uint64_t key) const {
    RefWord* const word = delta.count() == 0 ? nullptr : delta.Locate(key);
    return word != nullptr ? word : run.Locate(key);
  }
  // What the record at `epoch` is, which read(word) says unless it lies in the history. Also true
  // where it is known that there was nothing: see ValueRef::None.
  template <typename ReadFn>
  bool FindAt(uint64_t key, uint64_t epoch, const ReadFn& read, ValueRef* ref) const {
    const RefWord* word = delta.count() == 0 ? nullptr : delta.Locate(key, epoch);
    if (word == nullptr) {
      if (history != nullptr && history->Find(key, epoch, ref)) return true;
      word = run.Locate(key);
    }
    if (word == nullptr) return false;
    *ref = read(*word);
    return true;
  }

  // The word that leads to `frame`, which holds some value of `key`, and whether its record is the
  // newest of the key; null when there is none. With the bucket locked.
  RefWord* LocateFrame(uint64_t key, uint32_t frame, bool* newest) const;

  size_t history_bytes() const { return history == nullptr ? 0 : history->memory_bytes(); }
  size_t memory_bytes() const {
    return sizeof(Part) + run.memory_bytes() + delta.memory_bytes() + history_bytes();
  }
};

// How large the delta of a part may grow whose run and history have so many records. Merging
// costs a copy of the part, so the price of a record is about count / limit copied records, while
// each lookup searches the delta first.
uint32_t DeltaLimit(size_t record_count);

// A part to be merged, and its history, which a sweep may take away from it meanwhile.
struct MergeSource {
  const Part* part = nullptr;
  std::shared_ptr<const History> history;

  // Of the run and the history, not of the delta.
  size_t record_count() const {
    return part->run.count() + (history == nullptr ? 0 : history->records().size());
  }
};

// The parts that replace a part whose delta is full, or that part and a neighbour.
struct PartReplacement {
  // The same record's word in the old part and in the new one.
  struct HotWord {
    const RefWord* from;
    RefWord* to;
  };

  // Makes the words that were copied hot lead where the old ones do now, unless that is known to be
  // the same. What was swizzled since then goes back to its slot.
  void CopyHotWordsAgain(const FrameSlots& frames) noexcept;

  // The old part stays, with an empty delta, and `parts` go behind it; else they replace it.
  bool keeps_old_run = false;
  std::vector<std::unique_ptr<Part>> parts;
  // The smallest key that belongs to each of `parts`. What replaces the old part from its beginning
  // takes over that part's.
  std::vector<uint64_t> first_keys;
  std::vector<HotWord> hot_words;
  // The bucket's, before they were copied.
  uint64_t unswizzle_count = 0;
  // The records in `parts`: what the merge has copied.
  size_t record_count = 0;
};

// Merges the deltas of one part, or of neighbours, into their runs: the deltas' newest records win,
// and tombstones go unless they are kept. What live views may show of the others goes to the
// histories of the new parts, as does what they may still show of the old histories; nothing else
// does. More than `split_records` records, keys and history together, make two parts, unless all
// are of one key. When all the new keys lie above the old ones of a single part, as appended keys
// do, and would make it too large, the old run stays as it is. No source is changed; whether its
// words lead to frames may change at any time, which is what CopyHotWordsAgain is for. Histories
// get slots. kOutOfMemory.
Status MergeParts(std::span<const MergeSource> sources, const LiveEpochs& live,
                  const FrameSlots& frames, bool keep_tombstones, size_t split_records,
                  PartReplacement* replacement, const Placement& placement = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_H_
