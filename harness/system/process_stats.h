// CPU time, memory and open files of this process, the counters of its CPU, and a cap on the memory
// of its children.
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
#include <string_view>

#include "engine_race/base/status.h"
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

// A cap on the memory of child processes, the page cache of their files included. The cap is a
// cgroup of version 1 or 2, whichever this machine has.

// Where this process's memory cgroup lies, from the texts of /proc/self/mountinfo and
// /proc/self/cgroup.
struct MemoryCgroupPlace {
  bool is_v2 = false;
  std::string mount;  // where the hierarchy is mounted
  std::string own;    // this process's group in there, "" for the root
};
// Of version 1 if it has the memory controller, else of version 2. Nothing without either.
std::optional<MemoryCgroupPlace> FindMemoryCgroup(std::string_view mountinfo,
                                                  std::string_view cgroups);

// The path of the group below which a new one can be made; empty: there is none. With version 2
// only the root and groups without processes of their own hand the memory controller down.
std::string ParentForMemoryCgroups(const MemoryCgroupPlace& place);

class MemoryCgroup {
 public:
  MemoryCgroup() = default;
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;
  // Removes the group, whose processes have ended.
  ~MemoryCgroup();

  // Makes a group of this process's own. kNotSupported, with the reason, where that is impossible.
  Status Create(uint64_t limit_bytes);
  // For Join; empty before Create.
  const std::string& path() const { return path_; }
  // Of the hierarchy, 1 or 2; 0 before Create.
  int version() const { return version_; }

  // Puts the calling process into the group of this path.
  static Status Join(const std::string& path);
  // Makes a group, lets a child process join it, and removes it again. The caller has no other
  // threads.
  static Status TryOut(uint64_t limit_bytes);

 private:
  std::string path_;
  int version_ = 0;
};

}  // namespace engine_race::harness

#endif  // HARNESS_SYSTEM_PROCESS_STATS_H_
