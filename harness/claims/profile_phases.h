// Single phases of the engine, for a profiler. Each prepares its store, tells the profiler to
// begin, and runs for the configured time.
//
// Not thread-safe; a phase starts the threads that it needs.
#ifndef HARNESS_CLAIMS_PROFILE_PHASES_H_
#define HARNESS_CLAIMS_PROFILE_PHASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "harness/system/profiler_switch.h"

namespace harness {

struct ProfileConfig {
  std::string dir;  // empty and writable; on a tmpfs for phases whose device should cost nothing
  uint64_t key_count = 20000000;  // of the phases that need keys only
  uint64_t record_count = 262144;
  uint32_t thread_count = 64;
  double seconds = 5;
  uint64_t seed = 1;
};

struct ProfilePhase {
  const char* name;
  const char* about;
  // Returns what failed, or nothing.
  std::string (*run)(const ProfileConfig& config, const ProfilerSwitch& profiler);
};
const std::vector<ProfilePhase>& AllProfilePhases();

}  // namespace harness

#endif  // HARNESS_CLAIMS_PROFILE_PHASES_H_
