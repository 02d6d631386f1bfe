// A bare loop of random 4 KiB reads through a ReadQueue: the cost of a back end alone.
//
// It runs in the calling thread.
#ifndef HARNESS_LOAD_QUEUE_LOOP_H_
#define HARNESS_LOAD_QUEUE_LOOP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/io/read_queue.h"
#include "harness/load/store_runs.h"

namespace harness {

struct QueueLoop {
  engine_race::IoBackend backend = engine_race::IoBackend::kAuto;
  uint32_t depth = 128;
  uint32_t batch = 16;
  double seconds = 1;
  // Files to open with O_DIRECT, of which the first bytes_each are read.
  std::vector<std::string> paths;
  uint64_t bytes_each = 0;
};

// Keeps `depth` reads in flight, a batch at a time. *error says why a run counts nothing.
TimedRun RunQueueLoop(const QueueLoop& loop, std::string* error);

}  // namespace harness

#endif  // HARNESS_LOAD_QUEUE_LOOP_H_
