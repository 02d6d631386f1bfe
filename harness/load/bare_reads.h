// Everything that lies in a store's value files, read the way a range reads it, with nothing around
// the reads.
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
  std::string dir;  // the store's; closed, or open with nothing written meanwhile
  engine_race::IoBackend backend = engine_race::IoBackend::kAuto;
  // As of the engine's ranges.
  uint32_t read_bytes = 256 * 1024;
  uint32_t depth = 64;
  // What the reads go round in, touched before the time begins.
  uint64_t memory_bytes = 64 * 1024 * 1024;
};

// Reads what the value files of the store's directory hold, in their order. A count is a value.
engine_race::Status RunBareReads(const BareReads& reads, TimedRun* run);

}  // namespace harness

#endif  // HARNESS_LOAD_BARE_READS_H_
