#include "harness/measure/histogram.h"

#include <cmath>

namespace harness {

uint64_t Histogram::TopOf(size_t bucket) {
  if (bucket < kSteps) return bucket;
  const size_t shift = bucket / kSteps - 1;
  const uint64_t first = (kSteps + bucket % kSteps) << shift;
  return first + ((uint64_t{1} << shift) - 1);
}

uint64_t Histogram::Percentile(double fraction) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(fraction * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  uint64_t passed = 0;
  for (size_t i = 0; i < kBucketCount; ++i) {
    passed += counts_[i];
    if (passed >= rank) return std::min(TopOf(i), max_);
  }
  return max_;
}

}  // namespace harness
