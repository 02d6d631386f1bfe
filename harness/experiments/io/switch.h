// The cost of a switch from one task to the next: coroutines, Boost.Context, threads of the system.
//
// Measured in CPU time of the process, which a busy machine disturbs little; the median of several
// rounds. The calling thread is pinned to one CPU meanwhile.
#ifndef HARNESS_EXPERIMENTS_IO_SWITCH_H_
#define HARNESS_EXPERIMENTS_IO_SWITCH_H_

#include <cstdint>

#include "engine_race/base/status.h"

namespace engine_race::harness {

struct SwitchCost {
  // From one running task to the next one running, the scheduler's work included.
  double switch_ns = 0;
  double switch_cycles = 0;  // ticks of the time-stamp counter; 0 where there is none
  // Making a task, running it to its end, and freeing it.
  double create_ns = 0;
  // Memory of a task: bytes allocated, and how many of them were touched.
  uint64_t reserved_bytes = 0;
  uint64_t resident_bytes = 0;
};

struct SwitchLoad {
  // Tasks that take turns; threads of the system are always two.
  uint32_t task_count = 256;
  uint32_t round_count = 15;
  double seconds = 0.5;
};

// Suspended C++20 coroutines take turns in a fixed shuffled order.
Status CoroutineSwitches(const SwitchLoad& load, SwitchCost* cost);
// As CoroutineSwitches, but each task awaits an inner coroutine: the cost of a deeper call.
Status NestedCoroutineSwitches(const SwitchLoad& load, SwitchCost* cost);
// Boost.Context fibers with stacks of 16 KiB take turns in the same order.
Status BoostContextSwitches(const SwitchLoad& load, SwitchCost* cost);
// Two threads on one CPU that wake each other by turns.
Status FutexSwitches(const SwitchLoad& load, SwitchCost* cost);
Status EventFdSwitches(const SwitchLoad& load, SwitchCost* cost);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_SWITCH_H_
