// How much of the memory budget the index may take, and how much is left for frames and for the
// buffers of ranges.
//
// Everything else comes first. The index, and staging beyond its usual places, are counted as of
// now. The other parts can neither be refused nor taken back, so they are counted at their most.
// Usual staging, where it is mapped, is counted as if every bucket were written to. The workers,
// and the windows of short scans, are counted whole. A twentieth of the budget is kept for the
// rest: stacks, bounce buffers and the allocator. It also covers growth of the index while others
// give memory back for it.
//
// Thread safety: const calls from any thread, also beside SetIndex.
#ifndef ENGINE_RACE_MEMORY_BUDGET_H_
#define ENGINE_RACE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/options.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class MemoryBudget {
 public:
  // Ranges may always have so much, whatever is left.
  static constexpr uint64_t kLeastRangeBytes = uint64_t{8} << 20;

  // The log outlives it.
  MemoryBudget(const Options& options, const BucketLog& log);

  // Counts the index from here on, and the windows of short scans, whose number depends on it. To
  // be called once. The index lives as long as any call is made.
  void SetIndex(const Options& options, const Index& index);

  // Of the windows of short scans; 0 before SetIndex.
  uint64_t window_bytes() const { return window_bytes_; }
  // The bytes that the index may take in memory. The rest is left to frames and ranges.
  uint64_t IndexLimitBytes() const noexcept;
  // The bytes that are left, as of now; 0 when the others take more than there is. A few loads.
  uint64_t RestBytes() const noexcept;

 private:
  // The index may take three quarters of what is not taken before it, and an eighth of the budget
  // in any case.
  static constexpr uint64_t kLeastIndexFraction = 8;

  // Of the log and the workers.
  uint64_t FirstTakenBytes() const noexcept;

  const uint64_t budget_bytes_;
  const BucketLog& log_;
  uint64_t staging_bytes_ = 0;
  uint64_t fixed_bytes_ = 0;  // all but staging, the index and windows
  uint64_t window_bytes_ = 0;
  std::atomic<const Index*> index_{nullptr};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_MEMORY_BUDGET_H_
