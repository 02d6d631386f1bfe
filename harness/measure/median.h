// Medians and quartiles of a handful of rounds.
//
// Pure functions; 0 of nothing.
#ifndef HARNESS_MEASURE_MEDIAN_H_
#define HARNESS_MEASURE_MEDIAN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace engine_race::harness {

// The value below which `fraction` of the values lie, interpolated between two neighbours.
inline double QuantileOf(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

inline double MedianOf(std::vector<double> values) { return QuantileOf(std::move(values), 0.5); }

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_MEDIAN_H_
