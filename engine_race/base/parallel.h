// The same work by several threads at once, with one Status for all.
#ifndef ENGINE_RACE_BASE_PARALLEL_H_
#define ENGINE_RACE_BASE_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race {

// Runs work(0) on this thread and work(1) to work(count - 1) on others, as far as they can be
// started: the work must get done by fewer as well. The first failure, or Ok; refused memory is a
// failure.
Status RunParallel(uint32_t count, const std::function<Status(uint32_t worker)>& work);

// How many CPUs this process can keep busy, at least 1: those that it may run on, or fewer where a
// control group limits its CPU time. Reads files of /proc: not for hot paths.
uint32_t AvailableCpuCount();
// The numbers of the CPUs that it may run on, ascending; empty where the system does not tell.
std::vector<uint32_t> AvailableCpus();
// Has the calling thread run on `cpu` alone: false, and nothing changes, where that is refused.
bool PinThread(uint32_t cpu);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PARALLEL_H_
