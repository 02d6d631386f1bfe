// Medians and quartiles of a handful of rounds, and the median cost of short operations on one CPU.
//
// Medians are pure functions; 0 of nothing.
#ifndef HARNESS_MEASURE_MEDIAN_H_
#define HARNESS_MEASURE_MEDIAN_H_

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "harness/system/process_stats.h"

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

// The median of short rounds on one CPU, for costs of some nanoseconds.

// While it lives, keeps the calling thread, and threads that this starts, on the first CPU that it
// may use.
class PinnedToOneCpu {
 public:
  PinnedToOneCpu() {
    CPU_ZERO(&before_);
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &before_)) continue;
      CPU_SET(cpu, &one);
      break;
    }
    is_pinned_ = sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  PinnedToOneCpu(const PinnedToOneCpu&) = delete;
  PinnedToOneCpu& operator=(const PinnedToOneCpu&) = delete;
  ~PinnedToOneCpu() {
    if (is_pinned_) sched_setaffinity(0, sizeof(before_), &before_);
  }

 private:
  cpu_set_t before_;
  bool is_pinned_ = false;
};

// CPU time of all threads of the process. Unlike wall time it excludes other programs.
inline uint64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

// The time-stamp counter; 0 where there is none.
inline uint64_t CycleCount() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

struct RoundCost {
  double ns = 0;
  double cycles = 0;
};

// Returns the CPU time of one operation, the median over the rounds. `chunk` does some operations
// and returns how many; it is called for `seconds` in all. A chunk should take far longer than
// reading the clock. The first round warms up and is not counted.
template <typename Chunk>
RoundCost MedianCost(uint32_t round_count, double seconds, Chunk chunk) {
  const auto round_ns = static_cast<uint64_t>(seconds * 1e9 / (round_count + 1));
  const uint64_t first_ns = NowNs();
  const uint64_t first_cycles = CycleCount();
  std::vector<double> costs;
  for (uint32_t round = 0; round <= round_count; ++round) {
    const uint64_t begin_ns = NowNs();
    const uint64_t begin_cpu_ns = CpuNs();
    uint64_t count = 0;
    do {
      count += chunk();
    } while (NowNs() - begin_ns < round_ns);
    if (round == 0) continue;
    costs.push_back(static_cast<double>(CpuNs() - begin_cpu_ns) / static_cast<double>(count));
  }
  const double ns = MedianOf(std::move(costs));
  const double cycles_per_ns = static_cast<double>(CycleCount() - first_cycles) /
                               static_cast<double>(std::max<uint64_t>(NowNs() - first_ns, 1));
  return {ns, ns * cycles_per_ns};
}

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_MEDIAN_H_
