// What the processor counts of its own work, where it lets us look: most virtual machines do not.
//
// Counts this process, threads that begin later too. One thread.
#ifndef HARNESS_SYSTEM_CPU_COUNTERS_H_
#define HARNESS_SYSTEM_CPU_COUNTERS_H_

#include <array>
#include <cstdint>
#include <optional>

#include "engine_race/base/sys.h"

namespace harness {

struct CpuCounts {
  uint64_t instructions = 0;
  uint64_t cycles = 0;
  uint64_t l1d_misses = 0;  // loads that the first data cache did not have
};

class CpuCounters {
 public:
  // None where one of them cannot be had.
  static std::optional<CpuCounters> Open();

  void Start();
  CpuCounts Stop();

 private:
  CpuCounters() = default;

  std::array<engine_race::UniqueFd, 3> fds_;
};

}  // namespace harness

#endif  // HARNESS_SYSTEM_CPU_COUNTERS_H_
