// The CPU time of a Write and of a Read, each beside a bare program that does the same I/O.
//
// Engine and bare program run in turn; every other round swaps their order. Not thread-safe.
#ifndef HARNESS_CLAIMS_RACE_CPU_H_
#define HARNESS_CLAIMS_RACE_CPU_H_

#include <cstdint>
#include <string>

#include "engine_race/store.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct RaceCpuConfig {
  std::string dir;  // on the disk; a directory below it is made and removed
  std::string tmpfs_dir;
  uint32_t thread_count = 64;
  uint64_t write_record_count = 1000000;
  uint64_t read_record_count = 400000;
  uint32_t round_count = 9;
  double read_seconds = 2;
  uint64_t seed = 1;
  bool is_smoke = false;
};

// The claims that these comparisons give.
inline constexpr char kWriteCpuOverBare[] = "write_cpu_over_bare";
inline constexpr char kReadCpuOverFio[] = "read_cpu_over_fio";

// Each comparison notes its claim and the figures behind it.
class RaceCpu {
 public:
  // `rounds` outlives this.
  RaceCpu(const RaceCpuConfig& config, ClaimRounds* rounds) : config_(config), rounds_(rounds) {}

  // Compares writes on tmpfs with the bare loop in which each thread fills one group. Two more
  // figures are noted without a claim. One is the bare loop with as many groups as the store has
  // buckets. The other is a store that stages its records with pwrite.
  engine_race::Status CompareWrites();

  // Compares reads by blocking threads with fio's psync job on the same files.
  engine_race::Status CompareReads();

 private:
  engine_race::Status StoreWriteNs(engine_race::StagingMode mode, double* ns);
  engine_race::Status BareWriteNs(uint32_t groups_per_thread, double* ns);

  const RaceCpuConfig config_;
  ClaimRounds* const rounds_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_RACE_CPU_H_
