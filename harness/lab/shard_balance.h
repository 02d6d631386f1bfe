// What to move so that the core shards have more even loads.
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
  uint32_t worker = 0;  // who gets it, or its upper part
  std::string key;      // where that begins
};

// One step, from the hottest worker to the coolest: the sub-table that makes them most even, or the
// upper half of the hottest one where that is much better. Nothing where the loads are even enough,
// or all of the load is one key's. `heats` holds what each worker saw of its sub-tables.
ShardPlan PlanBalance(const Routes& routes, std::span<const std::vector<SubTableHeat>> heats);

}  // namespace lab

#endif  // HARNESS_LAB_SHARD_BALANCE_H_
