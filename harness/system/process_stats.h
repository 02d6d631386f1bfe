// CPU time, memory and open files of this process, and the clock that the programs share.
//
// Stateless; thread-safe.
#ifndef HARNESS_SYSTEM_PROCESS_STATS_H_
#define HARNESS_SYSTEM_PROCESS_STATS_H_

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

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

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_PROCESS_STATS_H_
