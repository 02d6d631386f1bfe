// A histogram of latencies: 64 steps to each power of two, so a percentile is within 1.6 %.
//
// It always takes 30 KiB. Not thread-safe: each thread has its own, and they are merged at the end.
#ifndef HARNESS_MEASURE_HISTOGRAM_H_
#define HARNESS_MEASURE_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace harness {

class Histogram {
 public:
  Histogram() : counts_(kBucketCount, 0) {}

  void Add(uint64_t value) {
    ++counts_[BucketOf(value)];
    ++count_;
    sum_ += value;
    max_ = std::max(max_, value);
  }

  void Merge(const Histogram& other) {
    for (size_t i = 0; i < kBucketCount; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }

  // The smallest recorded value, to within its step, that at least `fraction` of the recorded
  // values do not exceed. 0 when nothing was recorded.
  uint64_t Percentile(double fraction) const;

  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  double mean() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_);
  }

 private:
  static constexpr int kStepBits = 6;
  static constexpr uint64_t kSteps = uint64_t{1} << kStepBits;
  // One row of steps for all values below kSteps, one for each higher power of two.
  static constexpr size_t kBucketCount = (64 - kStepBits + 1) * kSteps;

  static size_t BucketOf(uint64_t value) {
    if (value < kSteps) return value;
    const int shift = std::bit_width(value) - 1 - kStepBits;
    return (static_cast<size_t>(shift) + 1) * kSteps + ((value >> shift) & (kSteps - 1));
  }
  // The largest value of a bucket.
  static uint64_t TopOf(size_t bucket);

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t max_ = 0;
};

}  // namespace harness

#endif  // HARNESS_MEASURE_HISTOGRAM_H_
