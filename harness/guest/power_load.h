// The load of a power-cut trial: writers make their operations until the cut.
#ifndef HARNESS_GUEST_POWER_LOAD_H_
#define HARNESS_GUEST_POWER_LOAD_H_

#include <cstdint>
#include <string>

#include "engine_race/base/options.h"
#include "engine_race/store.h"
#include "harness/guest/power_ledger.h"
#include "harness/guest/power_plan.h"

namespace engine_race::powercut {

struct LoadPlan {
  SyncMode sync_mode = SyncMode::kNone;
  uint32_t cycle = 0;
  // A thread calls Sync at this interval; 0: never.
  uint32_t sync_every_ms = 0;
  // The pause of a writer after each operation.
  uint32_t pace_us = 0;
  // The most operations of each writer; then it waits for the cut.
  uint32_t operation_count = 0;
};

// Returns only after a failure, with its description; otherwise the cut ends it.
std::string RunLoad(const Plan& plan, const LoadPlan& load, Store* store, Ledger* ledger);

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_LOAD_H_
