// What it brings to share nothing: lookups by workers that have their own tables, frames and
// epochs, over lookups of the same tables by as many threads that share everything.
//
// Those that share look up one key after the other, by pointer, as step 3 has it. The workers are
// the foreground threads themselves: each draws keys of all tables, answers its own, hands the rest
// over to their owners and answers what these have for it, all within the time that is measured.
// One thread at a time; runs have threads of their own.
#ifndef HARNESS_EXPERIMENTS_L1_SHARDS_H_
#define HARNESS_EXPERIMENTS_L1_SHARDS_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "engine_race/base/status.h"
#include "harness/experiments/l1/rounds.h"
#include "harness/experiments/l1/tables.h"
#include "harness/lab/core_shards.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

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

  // Opens tables that are shared and tables that are not, each block in memory.
  engine_race::Status Prepare();
  // In alternating rounds; lookups are spread over all tables.
  engine_race::Status Compare(const L1Lookups& lookups);

  // The workers' part of a round.
  engine_race::Status RunWorkers(const L1Lookups& lookups, const L1RunShape& shape, L1Run* run);
  // Batches by a client, which waits for their answers.
  MakeL1Answer ByClients();
  // By the threads that share, the lookups of a chunk put together by table.
  MakeL1Answer ByTable() const;

  nlohmann::json Describe() const;

 private:
  engine_race::Status WarmShards();

  const L1ShardsShape shape_;
  L1Files& files_;
  ClaimRounds& rounds_;
  std::unique_ptr<L1Tables> shared_;
  std::unique_ptr<lab::CoreShards> shards_;
};

}  // namespace harness

#endif  // HARNESS_EXPERIMENTS_L1_SHARDS_H_
