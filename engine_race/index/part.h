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
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/delta.h"
#include "engine_race/index/history.h"
#include "engine_race/index/index.h"
#include "engine_race/index/live_epochs.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

struct alignas(64) Part {
  SortedRun run;
  Delta delta;
  // Null when there is nothing in it. A sweep may replace it under the lock of the bucket's index.
  std::shared_ptr<const History> history;

  // The delta's word, else the run's; tombstones are found too.
  bool Find(uint64_t key, ValueRef* ref) const {
    if (delta.count() != 0 && delta.Find(key, ref)) return true;
    return run.Find(key, ref);
  }
  // The same at `epoch`. Also true where it is known that there was nothing: see ValueRef::None.
  bool FindAt(uint64_t key, uint64_t epoch, ValueRef* ref) const {
    if (delta.count() != 0 && delta.Find(key, epoch, ref)) return true;
    if (history != nullptr && history->Find(key, epoch, ref)) return true;
    return run.Find(key, ref);
  }

  size_t history_bytes() const { return history == nullptr ? 0 : history->memory_bytes(); }
  size_t memory_bytes() const {
    return sizeof(Part) + run.memory_bytes() + delta.memory_bytes() + history_bytes();
  }
};

// How large a delta over `run_count` keys may grow. Merging costs a copy of the part, so the price
// of a record is about count / limit copied keys, while each lookup searches the delta first.
uint32_t DeltaLimit(size_t run_count);

// What takes the place of a part whose delta is full.
struct PartReplacement {
  // The old part stays, with an empty delta, and `parts` go behind it; else they replace it.
  bool keeps_old_run = false;
  std::vector<std::unique_ptr<Part>> parts;
  // The smallest key that belongs to each of `parts`. What replaces the old part from its beginning
  // takes over that part's.
  std::vector<uint64_t> first_keys;
};

// Merges the delta of `part` into its run: the delta's newest records win, and tombstones go unless
// they are kept. What live views may show of the others goes to the histories of the new parts, as
// does what they may still show of `history`, which is the part's. More than `split_keys` keys make
// two parts; when all the new keys lie above the old ones, as appended keys do, the old run stays
// as it is. *part is not changed. kOutOfMemory.
Status MergePart(const Part& part, const std::shared_ptr<const History>& history,
                 const LiveEpochs& live, bool keep_tombstones, size_t split_keys,
                 PartReplacement* replacement);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_H_
