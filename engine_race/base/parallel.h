// The same work by several threads at once, with one Status for all.
#ifndef ENGINE_RACE_BASE_PARALLEL_H_
#define ENGINE_RACE_BASE_PARALLEL_H_

#include <cstdint>
#include <functional>

#include "engine_race/base/status.h"

namespace engine_race {

// Runs work(0) on this thread and work(1) to work(count - 1) on others, as far as they can be
// started: the work must get done by fewer as well. The first failure, or Ok; refused memory is a
// failure.
Status RunParallel(uint32_t count, const std::function<Status(uint32_t worker)>& work);

// CPUs that this process may use, at least 1.
uint32_t AvailableCpuCount();

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_PARALLEL_H_
