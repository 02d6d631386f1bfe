// Runs one function on several threads at once and joins their results into one Status.
#ifndef ENGINE_RACE_BASE_PARALLEL_H_
#define ENGINE_RACE_BASE_PARALLEL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "engine_race/base/shared_progress.h"
#include "engine_race/base/status.h"

namespace engine_race {

// The numbers of CPUs are below this: no kernel is built for more.
inline constexpr uint32_t kMaxCpuCount = uint32_t{1} << 20;

// Runs work(0) on this thread and work(1) to work(count - 1) on threads of their own. The thread of
// work(i) is called "name-i": see thread_name.h. Calls whose thread cannot be started are left out,
// so fewer calls must get all of the work done. Returns the first failure, or Ok; refused memory is
// a failure. While this thread waits for the others it tells the caller of their progress, unless
// that is null: this thread made it then.
Status RunParallel(const char* name, uint32_t count,
                   const std::function<Status(uint32_t worker)>& work,
                   SharedProgress* progress = nullptr);

// How many CPUs this process can keep busy, at least 1. A control group that limits its CPU time
// makes that fewer than it may run on. Reads files of /proc: not for hot paths.
uint32_t AvailableCpuCount();
// The numbers of the CPUs that it may run on, ascending; empty where the system does not tell.
std::vector<uint32_t> AvailableCpus();
// Has the calling thread run on `cpu` alone: false, and nothing changes, where that is refused.
bool PinThread(uint32_t cpu);

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PARALLEL_H_
