// How much of the memory budget is left for hot values and for the buffers of ranges.
//
// Everything else comes first. The index, and staging beyond its usual places, are counted as of
// now. The other parts can neither be refused nor taken back, so they are counted at their most.
// Usual staging is counted as if every bucket were written to; the workers, and the windows of
// scans that read for themselves, are counted whole. A twentieth of the budget is kept for the
// rest: stacks, bounce buffers and the allocator. It also covers growth of the index while others
// give memory back for it.
//
// Thread safety: const calls from any thread.
#ifndef ENGINE_RACE_MEMORY_BUDGET_H_
#define ENGINE_RACE_MEMORY_BUDGET_H_

#include <cstdint>

#include "engine_race/base/options.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class MemoryBudget {
 public:
  // The log and the index outlive it.
  MemoryBudget(const Options& options, const BucketLog& log, const Index& index);

  // Windows of iterators and of ranges at snapshots.
  uint64_t iterator_window_bytes() const { return iterator_window_bytes_; }
  // Windows of ranges over the latest state.
  uint64_t range_window_bytes() const { return range_window_bytes_; }
  // The bytes that are left, as of now; 0 when the others take more than there is. A few loads.
  uint64_t RestBytes() const noexcept;

 private:
  const uint64_t budget_bytes_;
  const BucketLog& log_;
  const Index& index_;
  uint64_t staging_bytes_ = 0;
  uint64_t fixed_bytes_ = 0;  // all but staging and the index
  uint64_t iterator_window_bytes_ = 0;
  uint64_t range_window_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_MEMORY_BUDGET_H_
