// What of the memory budget is left for ranges and hot values, and how they divide it.
//
// The index, staging as if every bucket were written to, the workers and a twentieth for the rest
// (stacks, bounce buffers, the allocator) come first; the index grows, everything else is counted
// at its most. Ranges get a fixed share with the first of them: all but what hot values use by
// then. Hot values may use the rest, which falls as the index grows. Until the first range there is
// an eighth that hot values leave alone, and an eighth that they need not have used to keep.
//
// Thread safety: const calls from any thread; TakeScanBytes once, beside them.
#ifndef ENGINE_RACE_MEMORY_SHARES_H_
#define ENGINE_RACE_MEMORY_SHARES_H_

#include <atomic>
#include <cstdint>

#include "engine_race/base/options.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class MemoryShares {
 public:
  // All of them outlive it.
  MemoryShares(const Options& options, const BucketLog& log, const Index& index);

  // Of iterators and of ranges at snapshots, taken from the beginning.
  uint64_t window_bytes() const { return window_bytes_; }
  // What hot values may use, as of now. 0 where they are off.
  uint64_t HotBytes() const;
  // The share of ranges from now on, while hot values use `hot_used_bytes`.
  uint64_t TakeScanBytes(uint64_t hot_used_bytes);

 private:
  // What index, staging, workers and windows leave; 0 when they take more than there is.
  uint64_t RestBytes() const;

  const uint64_t budget_bytes_;
  const uint64_t hot_value_bytes_;
  const Index& index_;
  uint64_t fixed_bytes_ = 0;  // all but the index, ranges and hot values
  uint64_t window_bytes_ = 0;
  std::atomic<uint64_t> scan_bytes_{0};  // 0 before the first range
};

}  // namespace engine_race

#endif  // ENGINE_RACE_MEMORY_SHARES_H_
