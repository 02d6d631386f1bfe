// The gain of sharing nothing. Workers with tables, frames and epochs of their own are compared
// with as many threads that share all tables.
//
// Sharing threads look up one key after the other, by pointer, as the step "swizzled" does. The
// workers are themselves the foreground threads. Each takes keys of all tables, answers its own and
// hands the rest over to their owners. It also answers the keys that the others hand to it. All of
// this is within the measured time.
#ifndef HARNESS_EXPERIMENTS_L1_SHARDS_H_
#define HARNESS_EXPERIMENTS_L1_SHARDS_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine_race/base/status.h"
#include "harness/experiments/l1/tables.h"
#include "harness/lab/core_shards.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

inline constexpr char kSharedNothing[] = "shared_nothing_gain";

struct L1ShardsShape {
  L1RoundsShape rounds;
  uint32_t thread_count = 1;
};

class L1Shards {
 public:
  // `files` and `rounds` outlive this.
  L1Shards(const L1ShardsShape& shape, L1Files* files, ClaimRounds* rounds)
      : shape_(shape), files_(*files), rounds_(*rounds) {}

  // Opens the shared tables and the workers' own, and loads all blocks into memory.
  Status Prepare();
  // Compares in alternating rounds; lookups are spread over all tables.
  Status Compare(const L1Lookups& lookups);

  // Runs the workers' part of a round.
  Status RunWorkers(const L1Lookups& lookups, const L1RunShape& shape, TimedPoint* point);
  // Answers by the sharing threads, with a chunk's lookups grouped by table.
  MakeL1Answer ByTable() const;

  nlohmann::json Describe() const;

 private:
  const L1ShardsShape shape_;
  L1Files& files_;
  ClaimRounds& rounds_;
  std::unique_ptr<L1Tables> shared_;
  std::unique_ptr<lab::CoreShards> shards_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_SHARDS_H_
