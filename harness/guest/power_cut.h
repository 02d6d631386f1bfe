// The init of a power-cut guest. It verifies the store on /dev/nvme0n1 as the last cut left it,
// then loads it until the next cut.
//
// scripts/powercut.py boots it and reads its lines on the serial console. The kernel's command line
// has
//   pc_seed         of the plan
//   pc_ledger       where on the device the ledger begins, bytes
//   pc_load         1: load after the verification; otherwise the guest powers off
//   pc_mode         none, group or every
//   pc_sync_ms, pc_pace_us, pc_operations   the load, see LoadPlan
//   pc_writeback    of the kernel, in centiseconds: how soon it writes dirty pages by itself
//   pc_reset_from   mount or load: resets the machine pc_reset_ms after that
#ifndef HARNESS_GUEST_POWER_CUT_H_
#define HARNESS_GUEST_POWER_CUT_H_

#include <cstdint>
#include <string>
#include <vector>

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

// The writers make their operations until the cut. Returns only after a failure, with its
// description; otherwise the cut ends it.
std::string RunLoad(const Plan& plan, const LoadPlan& load, Store* store, Ledger* ledger);

// Compares the store with its plan: checks that Range and Read agree, and that nothing is found
// which was never written. Every bucket must show a prefix of its writer's operations in the last
// cycle, on top of the state that the earlier cycles left. The prefix must reach the acknowledged
// operations.
//
// `kept` holds the earlier cycles. The last cycle is added unless `cycle_count` says that there is
// none. Returns the first violation, or nothing.
std::string Verify(const Plan& plan, Store* store, const Acked& acked, uint32_t cycle_count,
                   std::vector<Kept>* kept);

[[noreturn]] void Run();

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_CUT_H_
