// Bare loops of reads through a ReadQueue: what reading costs without an engine.
//
// Each runs one thread of its own; one call at a time.
#ifndef HARNESS_LOAD_QUEUE_LOOP_H_
#define HARNESS_LOAD_QUEUE_LOOP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/read_queue.h"
#include "harness/load/drawn_reads.h"

namespace harness {

struct QueueLoop {
  engine_race::IoBackend backend = engine_race::IoBackend::kAuto;
  uint32_t depth = 128;  // reads in flight
  uint32_t batch = 16;   // of them that are submitted, and waited for, together
  double seconds = 1;
  // Files to open with O_DIRECT, of which the first bytes_each are read.
  std::vector<std::string> paths;
  uint64_t bytes_each = 0;
};

// Random reads of 4 KiB.
engine_race::Status RunQueueLoop(const QueueLoop& loop, TimedRun* run);

// Reads all value files of the store's directory in order and counts values. The directory is of a
// store that is closed, or open without writers. Reads are as the engine's ranges have them.
engine_race::Status ReadValueFiles(const std::string& dir, TimedRun* run,
                                   uint32_t read_bytes = 256 * 1024, uint32_t depth = 64);

}  // namespace harness

#endif  // HARNESS_LOAD_QUEUE_LOOP_H_
