// A bare loop that reads all of a store's value files as a range does.
//
// One thread.
#ifndef HARNESS_LOAD_BARE_READS_H_
#define HARNESS_LOAD_BARE_READS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "harness/load/store_runs.h"

namespace harness {

struct BareReads {
  std::string dir;  // the store's directory; closed, or open without writers
  engine_race::IoBackend backend = engine_race::IoBackend::kAuto;
  // As the engine's ranges have them.
  uint32_t read_bytes = 256 * 1024;
  uint32_t depth = 64;
  // The memory that the reads fill again and again; it is touched before the time begins.
  uint64_t memory_bytes = 64 * 1024 * 1024;
};

// Reads the value files of the store's directory in their order, and counts values.
engine_race::Status RunBareReads(const BareReads& reads, TimedRun* run);

}  // namespace harness

#endif  // HARNESS_LOAD_BARE_READS_H_
