// The sizes of a run of the bench about space, and what its measurements report to.
//
// Values.
#ifndef HARNESS_CLAIMS_SPACE_CONFIG_H_
#define HARNESS_CLAIMS_SPACE_CONFIG_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/data/value_maker.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

// The most that a store may take over its live bytes, of the engine and of RocksDB.
inline constexpr double kSpaceBound = 1.5;

struct SpaceConfig {
  std::string dir;  // on the disk, empty and writable
  // Values of the data set; each store has one.
  uint64_t data_bytes = uint64_t{8} << 30;
  uint32_t pass_count = 10;    // how often the writes of a run would overwrite the data set
  uint32_t thread_count = 64;  // that write
  // Turns that alternate: each first runs for `ramp_seconds` without being measured.
  uint32_t round_count = 7;
  double ramp_seconds = 4;
  double seconds = 8;
  // Passes of overwriting that bring a store to its steady state before its turns, and their
  // longest time.
  uint32_t precondition_pass_count = 2;
  double precondition_seconds = 600;
  double sample_seconds = 0.25;
  // Space of a store that does not depend on the data set: staging, journal, buffers.
  uint64_t slack_bytes = uint64_t{1} << 30;
  uint64_t memory_budget_bytes = uint64_t{2} << 30;
  // Of read_p99_under_reclaim: reads and writes a second.
  double read_rate = 2000;
  uint32_t read_thread_count = 8;
  double write_rate = 25000;
  // Of no_overwrite_cost.
  std::string memory_dir;  // likewise, on tmpfs
  uint64_t cost_bytes = uint64_t{1} << 30;
  uint32_t cost_thread_count = 4;
  uint32_t cost_round_count = 21;
  uint64_t seed = 1;

  uint64_t record_count() const { return data_bytes / kValueSize; }
  // A store that takes more ends its run: reclaim cannot keep up, and the disk would run full.
  uint64_t most_store_bytes() const { return data_bytes / 4 * 9 + slack_bytes; }
  // By how much a store without reclaim grows in the turns of read_p99_under_reclaim.
  uint64_t grown_bytes() const {
    const double writes = write_rate * (seconds + ramp_seconds) * round_count;
    return static_cast<uint64_t>(writes) * (kValueSize + 16);
  }
};

// Takes the figures of the measurements.
struct SpaceReport {
  ClaimRounds* rounds;
  nlohmann::json* about;  // an object
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_SPACE_CONFIG_H_
