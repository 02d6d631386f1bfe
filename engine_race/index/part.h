// A part: all that the index knows of one stretch of a bucket's keys, as a sorted run that never
// changes and a delta of newer records over it.
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
#include "engine_race/index/index.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

struct alignas(64) Part {
  SortedRun run;
  Delta delta;

  // The delta's word, else the run's; tombstones are found too.
  bool Find(uint64_t key, ValueRef* ref) const {
    if (delta.count() != 0 && delta.Find(key, ref)) return true;
    return run.Find(key, ref);
  }

  size_t memory_bytes() const { return sizeof(Part) + run.memory_bytes() + delta.memory_bytes(); }
};

// How large a delta over `run_count` keys may grow. Merging costs a copy of the part, so the price
// of a record is about count / limit copied keys, while each lookup searches the delta first.
uint32_t DeltaLimit(size_t run_count);

// What takes the place of a part whose delta is full.
struct PartReplacement {
  // The old part stays, with an empty delta, and `parts` go behind it; else they replace it.
  bool keeps_old_run = false;
  std::vector<std::unique_ptr<Part>> parts;
};

// Merges the delta of `part` into its run: the delta's records win, and tombstones go unless they
// are kept. More than `split_keys` keys make two parts; when all the new keys lie above the old
// ones, as appended keys do, the old run stays as it is. *part is not changed. kOutOfMemory.
Status MergePart(const Part& part, bool keep_tombstones, size_t split_keys,
                 PartReplacement* replacement);

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_H_
