// The processor's own counters. Most virtual machines do not offer them.
//
// Counts this process, including threads that begin later.
#ifndef HARNESS_SYSTEM_CPU_COUNTERS_H_
#define HARNESS_SYSTEM_CPU_COUNTERS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "engine_race/base/sys.h"

namespace engine_race::harness {

struct CpuCounts {
  uint64_t instructions = 0;
  uint64_t cycles = 0;
  uint64_t l1d_misses = 0;  // loads that the first data cache did not have
};

class CpuCounters {
 public:
  // Nothing when one of the counters is unavailable.
  static std::optional<CpuCounters> Open();

  void Start();
  CpuCounts Stop();

 private:
  CpuCounters() = default;

  std::array<UniqueFd, 3> fds_;
};

// Switches `perf record --control fifo:CONTROL,ANSWER` on and off.
class ProfilerSwitch {
 public:
  // The paths of both fifos. Without paths Turn does nothing.
  ProfilerSwitch(std::string control_path, std::string answer_path);
  // False when the profiler does not answer.
  bool Turn(bool on) const;

 private:
  const std::string control_path_;
  const std::string answer_path_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_CPU_COUNTERS_H_
