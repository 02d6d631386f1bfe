#include "harness/claims/space_samples.h"

#include <algorithm>

#include "harness/data/value_maker.h"

namespace harness {

double SpaceAmplification(uint64_t disk_bytes, uint64_t live_count) {
  return static_cast<double>(disk_bytes) / static_cast<double>(live_count * kValueSize);
}

double WriteAmplification(uint64_t bytes, uint64_t write_count) {
  if (write_count == 0) return 0;
  return static_cast<double>(bytes) / static_cast<double>(write_count * kValueSize);
}

size_t SecondHalf(const SpaceSamples& samples) {
  if (samples.empty()) return 0;
  const uint64_t first = samples.front().write_count;
  const uint64_t middle = first + (samples.back().write_count - first) / 2;
  const auto found = std::find_if(samples.begin(), samples.end(), [middle](const auto& sample) {
    return sample.write_count >= middle;
  });
  return static_cast<size_t>(found - samples.begin());
}

uint64_t PeakDiskBytes(const SpaceSamples& samples) {
  uint64_t peak = 0;
  for (size_t i = SecondHalf(samples); i < samples.size(); ++i) {
    peak = std::max(peak, samples[i].disk_bytes);
  }
  return peak;
}

double WriteRate(const SpaceSample& first, const SpaceSample& last) {
  const double seconds = last.seconds - first.seconds;
  if (seconds <= 0) return 0;
  return static_cast<double>(last.write_count - first.write_count) / seconds;
}

}  // namespace harness
