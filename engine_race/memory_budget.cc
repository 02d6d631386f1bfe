#include "engine_race/memory_budget.h"

#include <algorithm>
#include <string>

#include "engine_race/scan/range_reader.h"
#include "engine_race/task/read_pool.h"

namespace engine_race {

MemoryBudget::MemoryBudget(const Options& options, const BucketLog& log)
    : budget_bytes_(options.memory_budget_bytes), log_(log) {
  // Pages that are written to files are the kernel's to give back.
  staging_bytes_ = log.staging_mapped() ? log.geometry().usual_staging_bytes() : 0;
  fixed_bytes_ = budget_bytes_ / 20 + ReadPool::MaxMemoryBytes(options, log.geometry().layout);
}

void MemoryBudget::SetIndex(const Options& options, const Index& index) {
  const uint64_t index_bytes = index.memory_bytes();
  const uint64_t rest_bytes = RestBytes();
  const uint64_t scan_bytes =
      std::max(rest_bytes > index_bytes ? rest_bytes - index_bytes : 0, kLeastRangeBytes);
  window_bytes_ = RangeReader::WindowBytes(scan_bytes, log_.geometry().layout);
  // Release: with window_bytes_. Pairs with the acquire in RestBytes.
  index_.store(&index, std::memory_order_release);
  if (index_bytes > budget_bytes_) {
    Log(options.log, LogLevel::kWarning,
        "the index takes " + std::to_string(index_bytes) +
            " bytes, more than the whole memory budget of " + std::to_string(budget_bytes_));
  }
}

uint64_t MemoryBudget::FirstTakenBytes() const noexcept {
  return fixed_bytes_ + std::max(staging_bytes_, log_.memory_bytes());
}

uint64_t MemoryBudget::IndexLimitBytes() const noexcept {
  const uint64_t taken_bytes = FirstTakenBytes();
  const uint64_t left_bytes = budget_bytes_ > taken_bytes ? budget_bytes_ - taken_bytes : 0;
  return std::max(left_bytes / 4 * 3, budget_bytes_ / kLeastIndexFraction);
}

uint64_t MemoryBudget::RestBytes() const noexcept {
  uint64_t taken_bytes = FirstTakenBytes();
  // Acquire: pairs with the release in SetIndex.
  const Index* const index = index_.load(std::memory_order_acquire);
  if (index != nullptr) {
    taken_bytes += index->memory_bytes() + window_bytes_;
  }
  return budget_bytes_ > taken_bytes ? budget_bytes_ - taken_bytes : 0;
}

}  // namespace engine_race
