// The runs of a bucket as they lay in memory at one moment, for readers without the bucket's lock.
//
// Keeps the addresses of the runs readable. The runs themselves may go: then they read as zeros.
//
// Immutable, thread-safe.
#ifndef ENGINE_RACE_INDEX_FLAT_RUNS_H_
#define ENGINE_RACE_INDEX_FLAT_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/base/lower_bound.h"
#include "engine_race/base/memory.h"
#include "engine_race/index/part_row.h"
#include "engine_race/index/sorted_run.h"

namespace engine_race {

class FlatRuns {
 public:
  // Null unless each part of the row has a run in a slab. May throw std::bad_alloc.
  static std::unique_ptr<const FlatRuns> Of(const PartRow& row);

  // Of the runs but the first, the last one whose first key is at most `key`; null if there is
  // none.
  const RunView* LaterRun(uint64_t key) const {
    const size_t index = UpperRank(first_keys_.data(), first_keys_.size(), key);
    return index == 0 ? nullptr : &later_[index - 1];
  }
  size_t memory_bytes() const;

 private:
  std::vector<uint64_t> first_keys_;  // of later_
  std::vector<RunView> later_;
  std::vector<std::shared_ptr<const Region>> mappings_;  // of all
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_FLAT_RUNS_H_
