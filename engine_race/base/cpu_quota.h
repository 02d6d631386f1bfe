// How many CPUs' worth of time the control groups of this process let it use.
//
// Containers usually limit CPU time by a quota, not by a set of CPUs. Threads beyond the quota's
// CPUs add no speed: all threads share the quota and are stopped together when it is spent.
//
// Thread-safe. CpuQuotaFrom is a pure function of the files that it is given.
#ifndef ENGINE_RACE_BASE_CPU_QUOTA_H_
#define ENGINE_RACE_BASE_CPU_QUOTA_H_

#include <cstdint>

#include "engine_race/base/control_groups.h"

namespace engine_race {

inline constexpr uint32_t kNoCpuQuota = ~uint32_t{0};

// The least quota of the process's groups and of all visible groups above them, in CPUs, rounded
// up. Cgroup v2 has it in "cpu.max", v1 in "cpu.cfs_quota_us" and "cpu.cfs_period_us". kNoCpuQuota
// where there is none or the files make no sense. `read` is called for "/proc/self/cgroup",
// "/proc/self/mountinfo" and files of the mounted hierarchies.
uint32_t CpuQuotaFrom(const FileReaderFn& read);

// CpuQuotaFrom with this process's files; kNoCpuQuota, too, when there is no memory to read them.
uint32_t CpuQuota() noexcept;

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_CPU_QUOTA_H_
