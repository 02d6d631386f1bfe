#include "engine_race/memory_shares.h"

#include <algorithm>
#include <string>

#include "engine_race/scan/iterator_pool.h"
#include "engine_race/task/read_pool.h"

namespace engine_race {

namespace {

// Ranges have that much, whatever is left.
constexpr uint64_t kLeastScanBytes = uint64_t{8} << 20;
constexpr uint64_t kLeastFraction = 8;

uint64_t LeastScanBytes(uint64_t rest_bytes) {
  return std::max(rest_bytes / kLeastFraction, kLeastScanBytes);
}

uint64_t Less(uint64_t from, uint64_t bytes) { return from > bytes ? from - bytes : 0; }

}  // namespace

MemoryShares::MemoryShares(const Options& options, const BucketLog& log, const Index& index)
    : budget_bytes_(options.memory_budget_bytes),
      hot_value_bytes_(options.hot_value_bytes),
      index_(index) {
  const Geometry& geometry = log.geometry();
  fixed_bytes_ = budget_bytes_ / 20 + ReadPool::MaxMemoryBytes(options) +
                 geometry.staging_base_values_bytes() + geometry.staging_keys_bytes();
  window_bytes_ = IteratorPool::WindowBytes(std::max(RestBytes(), kLeastScanBytes));
  fixed_bytes_ += window_bytes_;
  const uint64_t index_bytes = index.memory_bytes();
  if (index_bytes > budget_bytes_) {
    Log(options.log, LogLevel::kWarning,
        "the index takes " + std::to_string(index_bytes) +
            " bytes, more than the whole memory budget of " + std::to_string(budget_bytes_));
  }
}

uint64_t MemoryShares::RestBytes() const {
  return Less(budget_bytes_, fixed_bytes_ + index_.memory_bytes());
}

uint64_t MemoryShares::HotBytes() const {
  if (hot_value_bytes_ == 0) return 0;
  const uint64_t rest = RestBytes();
  // Relaxed: a number by itself.
  const uint64_t taken = scan_bytes_.load(std::memory_order_relaxed);
  return std::min(hot_value_bytes_, Less(rest, taken != 0 ? taken : LeastScanBytes(rest)));
}

uint64_t MemoryShares::TakeScanBytes(uint64_t hot_used_bytes) {
  const uint64_t rest = RestBytes();
  const uint64_t least = LeastScanBytes(rest);
  uint64_t hot_bytes = 0;
  if (hot_value_bytes_ != 0) {
    hot_bytes = std::min(std::max(hot_used_bytes, rest / kLeastFraction), hot_value_bytes_);
  }
  const uint64_t scan_bytes = std::max(Less(rest, hot_bytes), least);
  // Relaxed: a number by itself.
  scan_bytes_.store(scan_bytes, std::memory_order_relaxed);
  return scan_bytes;
}

}  // namespace engine_race
