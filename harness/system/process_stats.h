// CPU time, memory and open files of this process, and the counters of its CPU.
//
// Functions are stateless and thread-safe. An object belongs to one thread.
#ifndef HARNESS_SYSTEM_PROCESS_STATS_H_
#define HARNESS_SYSTEM_PROCESS_STATS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine_race/base/sys.h"

namespace engine_race::harness {

inline uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

inline double SecondsSince(uint64_t start_ns) {
  return static_cast<double>(NowNs() - start_ns) * 1e-9;
}

// Of all threads since the process began.
struct CpuTimes {
  double user_seconds = 0;
  double system_seconds = 0;
};
CpuTimes ProcessCpuTimes();
CpuTimes operator-(const CpuTimes& after, const CpuTimes& before);
// Both together.
double CpuSeconds();

// User and system time of the calling thread.
uint64_t ThreadCpuNs();

// How often the calling thread has given up its CPU to wait, for a device or for another thread.
uint64_t ThreadWaitCount();

// VmHWM: the most memory that was resident at once. 0 when /proc does not report it.
uint64_t PeakRssBytes();
// Begins VmHWM anew with what is resident now. False where the kernel does not allow it.
bool ResetPeakRss();

// Descriptors that are open; 0 when /proc does not list them.
uint64_t OpenFileCount();
// Raises the limit on open files to the most that this process may have. A refusal leaves it as it
// is, and what opens files says what it lacks.
void RaiseFileLimit();

// A short description of the machine, for reports of figures.

// CPU model, CPUs that this process may use, memory, kernel, and the file system of `dir`.
nlohmann::json DescribeMachine(const std::string& dir);

// Memory that can be allocated without swapping; 0 when /proc does not report it.
uint64_t FreeMemoryBytes();

// The processor's own counters. Most virtual machines do not offer them.
//
// Counts this process, including threads that begin later.

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

#endif  // HARNESS_SYSTEM_PROCESS_STATS_H_
