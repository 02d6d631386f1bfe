// The verification after a power cut: compares the store with its plan.
#ifndef HARNESS_GUEST_POWER_VERIFY_H_
#define HARNESS_GUEST_POWER_VERIFY_H_

#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/guest/power_ledger.h"
#include "harness/guest/power_plan.h"

namespace engine_race::powercut {

// Checks that Range and Read agree, and that nothing is found which was never written. Every bucket
// must show a prefix of its writer's operations in the last cycle, on top of the state that the
// earlier cycles left. The prefix must reach the acknowledged operations.
//
// `kept` holds the earlier cycles. The last cycle is added unless `cycle_count` says that there is
// none. Returns the first violation, or nothing.
std::string Verify(const Plan& plan, Store* store, const Acked& acked, uint32_t cycle_count,
                   std::vector<Kept>* kept);

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_VERIFY_H_
