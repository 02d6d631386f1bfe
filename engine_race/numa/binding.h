// The system calls of placement: where threads run, and where pages lie.
//
// Raw calls, so that the archive needs no library. Stateless and thread-safe. Containers often
// refuse them: kNotSupported then, and where the kernel has no NUMA.
#ifndef ENGINE_RACE_NUMA_BINDING_H_
#define ENGINE_RACE_NUMA_BINDING_H_

#include <cstdint>
#include <span>

#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"

namespace engine_race::numa {

// Has the calling thread, and threads that it starts later, run on these CPUs alone.
// kInvalidArgument for no CPUs.
Status RunOn(std::span<const uint32_t> cpus);

// Whether RunOn is allowed. A short-lived thread tries it with the CPUs that it has. The caller's
// thread is left alone: even its present CPUs, set once more, would cost it those that are offline.
Status TryRunOn();

// Tries `placement` with a new page and as this thread's policy. kNotSupported when refused.
Status TryPlacement(const Placement& placement);

}  // namespace engine_race::numa

#endif  // ENGINE_RACE_NUMA_BINDING_H_
