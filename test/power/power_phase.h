// The parts of a random life of a store: its geometry, its phases, the options of each.
#ifndef TEST_POWER_POWER_PHASE_H_
#define TEST_POWER_POWER_PHASE_H_

#include <cstdint>

#include "engine_race/store.h"
#include "test/power/crash_bias.h"

namespace engine_race::test {

// How a life uses its stores. In one of reuse few rows take all overwrites, so slots are freed and
// used again.
enum class Life : uint8_t { kAnyUse, kReuse };

// How the store is used between two losses of power.
struct PowerPhase {
  uint32_t thread_count = 1;
  uint64_t write_count = 0;  // of each thread
  uint64_t key_count = 0;    // of each lane
  double sync_chance = 0;
  double reopen_chance = 0;
  double delete_chance = 0;
  double look_chance = 0;
  double batch_chance = 0;
  double compact_chance = 0;
  uint64_t failing_flush = 0;  // counted from 1; 0: none fails
};

Options DrawPowerGeometry(Life life, Random* random);
PowerPhase DrawPowerPhase(Life life, Random* random);
// Of an opening of a store of that geometry, for that phase.
Options DrawPowerOptions(const Options& geometry, const PowerPhase& phase, Random* random);

}  // namespace engine_race::test

#endif  // TEST_POWER_POWER_PHASE_H_
