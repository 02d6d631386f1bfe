// Uniform writes beside uniform reads, on a store that FillKeyLogs has made.
//
// Half of the writes replace a record, the others add one. Not thread-safe; a load starts the
// threads that it is asked for.
#ifndef HARNESS_CLAIMS_INDEX_LOAD_H_
#define HARNESS_CLAIMS_INDEX_LOAD_H_

#include <cstdint>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/load/index_keys.h"

namespace harness {

struct IndexLoad {
  uint32_t writer_count = 1;
  uint32_t reader_count = 0;  // they read until the writers are done
  uint64_t write_count = 0;   // of all writers together
  // Number of the first new key, see IndexKeys::New. A load uses (write_count + 1) / 2 numbers.
  uint64_t first_new = 0;
  uint64_t seed = 1;

  uint64_t new_key_count() const { return (write_count + 1) / 2; }
};

struct IndexLoadResult {
  double seconds = 0;
  uint64_t read_count = 0;
  engine_race::LatencyHistogram write_latency;  // in nanoseconds
};

// The key of write `number`: an even one adds a record.
uint64_t LoadKeyAt(const IndexKeys& keys, const IndexLoad& load, uint64_t number);

engine_race::Status RunIndexLoad(engine_race::Store* store, const IndexKeys& keys,
                                 const IndexLoad& load, IndexLoadResult* result);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_LOAD_H_
