// Decides which sub-table to move or split so that the loads of the core shards become more even.
//
// Pure functions.
#ifndef HARNESS_LAB_SHARD_BALANCE_H_
#define HARNESS_LAB_SHARD_BALANCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/lab/shard_routes.h"
#include "harness/lab/shard_worker.h"

namespace lab {

struct ShardPlan {
  enum class Kind : uint8_t { kNothing, kMove, kSplit };
  Kind kind = Kind::kNothing;
  uint32_t sub_table = 0;
  uint32_t worker = 0;  // the worker that gets it, or its upper part
  std::string key;      // where the upper part begins
};

// Plans one step from the hottest worker to the coolest. Moves the sub-table that makes their loads
// most even, or the upper half of the hottest one when that is much better. Does nothing when the
// loads are even enough or all of the load is on one key. `heats` has the gets of each worker, by
// sub-table.
ShardPlan PlanBalance(const Routes& routes, std::span<const std::vector<SubTableHeat>> heats);

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_BALANCE_H_
