#include "engine_race/memory_budget.h"

#include <algorithm>
#include <string>

#include "engine_race/memory_shares.h"
#include "engine_race/scan/iterator_pool.h"
#include "engine_race/scan/range_reader.h"
#include "engine_race/task/read_pool.h"

namespace engine_race {

MemoryBudget::MemoryBudget(const Options& options, const BucketLog& log, const Index& index)
    : budget_bytes_(options.memory_budget_bytes), log_(log), index_(index) {
  const Geometry& geometry = log.geometry();
  staging_bytes_ = geometry.staging_base_values_bytes() + geometry.staging_keys_bytes();
  fixed_bytes_ = budget_bytes_ / 20 + ReadPool::MaxMemoryBytes(options);
  const uint64_t scan_bytes = std::max(RestBytes(), MemoryShares::kLeastRangeBytes);
  iterator_window_bytes_ = IteratorPool::WindowBytes(scan_bytes);
  range_window_bytes_ = RangeReader::WindowBytes(scan_bytes);
  fixed_bytes_ += iterator_window_bytes_ + range_window_bytes_;
  const uint64_t index_bytes = index.memory_bytes();
  if (index_bytes > budget_bytes_) {
    Log(options.log, LogLevel::kWarning,
        "the index takes " + std::to_string(index_bytes) +
            " bytes, more than the whole memory budget of " + std::to_string(budget_bytes_));
  }
}

uint64_t MemoryBudget::RestBytes() const noexcept {
  const uint64_t staging_bytes = std::max(staging_bytes_, log_.memory_bytes());
  const uint64_t taken_bytes = fixed_bytes_ + staging_bytes + index_.memory_bytes();
  return budget_bytes_ > taken_bytes ? budget_bytes_ - taken_bytes : 0;
}

}  // namespace engine_race
