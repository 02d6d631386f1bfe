// A histogram of latencies in nanoseconds: 32 steps to each power of two.
//
// A percentile is exact to within a step, which is at most 1/32 of the value. Latencies above 18
// minutes count as the last step. Each histogram takes 9 KiB once something was added.
// Values; not thread-safe. engine_race/base/latency_recorder.h is what threads record into.
#ifndef ENGINE_RACE_BASE_LATENCY_HISTOGRAM_H_
#define ENGINE_RACE_BASE_LATENCY_HISTOGRAM_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace engine_race {

class LatencyHistogram {
 public:
  static constexpr uint32_t kStepBits = 5;
  static constexpr uint64_t kSteps = uint64_t{1} << kStepBits;
  // Values from here on count as the last step.
  static constexpr uint32_t kValueBits = 40;
  // One row of steps for all values below kSteps, and one for each higher power of two.
  static constexpr size_t kStepCount = (kValueBits - kStepBits + 1) * kSteps;

  static constexpr size_t StepOf(uint64_t ns) {
    if (ns < kSteps) return ns;
    if (ns >> kValueBits != 0) return kStepCount - 1;
    const uint32_t shift = static_cast<uint32_t>(std::bit_width(ns)) - 1 - kStepBits;
    return (shift + size_t{1}) * kSteps + ((ns >> shift) & (kSteps - 1));
  }
  // The largest value of a step.
  static constexpr uint64_t TopOf(size_t step) {
    if (step < kSteps) return step;
    const size_t shift = step / kSteps - 1;
    const uint64_t first = (kSteps + step % kSteps) << shift;
    return first + ((uint64_t{1} << shift) - 1);
  }

  void Add(uint64_t ns) { AddStep(StepOf(ns), 1, ns, ns); }
  // Adds `count` values of one step, with their sum and the largest of them.
  void AddStep(size_t step, uint64_t count, uint64_t sum_ns, uint64_t max_ns) {
    if (counts_.empty()) counts_.resize(kStepCount);
    counts_[step] += count;
    count_ += count;
    sum_ns_ += sum_ns;
    max_ns_ = std::max(max_ns_, max_ns);
  }
  void Merge(const LatencyHistogram& other) {
    for (size_t step = 0; step < other.counts_.size(); ++step) {
      if (other.counts_[step] > 0) AddStep(step, other.counts_[step], 0, 0);
    }
    sum_ns_ += other.sum_ns_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
  }
  // The values that were added since `earlier`, an earlier state of this histogram. Of the largest
  // of them only the step is known.
  LatencyHistogram Since(const LatencyHistogram& earlier) const {
    LatencyHistogram since;
    for (size_t step = 0; step < counts_.size(); ++step) {
      const uint64_t before = earlier.CountAt(step);
      if (counts_[step] <= before) continue;
      since.AddStep(step, counts_[step] - before, 0, std::min(TopOf(step), max_ns_));
    }
    since.sum_ns_ = sum_ns_ - std::min(earlier.sum_ns_, sum_ns_);
    return since;
  }

  // The smallest recorded value, to within its step, that at least `fraction` of the recorded
  // values do not exceed. 0 when nothing was recorded.
  uint64_t PercentileNs(double fraction) const {
    const double wanted = std::ceil(fraction * static_cast<double>(count_));
    const uint64_t rank = std::min(std::max<uint64_t>(static_cast<uint64_t>(wanted), 1), count_);
    uint64_t passed = 0;
    for (size_t step = 0; step < counts_.size(); ++step) {
      passed += counts_[step];
      if (passed >= rank) return std::min(TopOf(step), max_ns_);
    }
    return max_ns_;
  }
  // How many values are below a power of two: of 2^`bits`.
  uint64_t CountBelow(uint32_t bits) const {
    const size_t end = bits >= kValueBits ? kStepCount : StepOf(uint64_t{1} << bits);
    uint64_t count = 0;
    for (size_t step = 0; step < std::min(end, counts_.size()); ++step) count += counts_[step];
    return count;
  }

  uint64_t count() const { return count_; }
  uint64_t CountAt(size_t step) const { return step < counts_.size() ? counts_[step] : 0; }
  uint64_t sum_ns() const { return sum_ns_; }
  uint64_t max_ns() const { return max_ns_; }
  double mean_ns() const {
    return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_);
  }

 private:
  std::vector<uint64_t> counts_;  // empty: nothing was added
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_LATENCY_HISTOGRAM_H_
