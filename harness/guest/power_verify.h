// The verification after a power cut: what the store must hold, and what it holds.
#ifndef HARNESS_GUEST_POWER_VERIFY_H_
#define HARNESS_GUEST_POWER_VERIFY_H_

#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/guest/power_ledger.h"
#include "harness/guest/power_plan.h"

namespace engine_race::powercut {

// Checks that Range and Read agree, that there is nothing which was never written, that every
// bucket shows a prefix of its writer's operations in the last epoch on top of what earlier epochs
// left, and that the prefix reaches what was acknowledged. `kept` holds the earlier epochs; the
// last one is added unless `epoch_count` says that there is none. Returns the first violation, or
// nothing.
std::string Verify(const Plan& plan, Store* store, const Acked& acked, uint32_t epoch_count,
                   std::vector<Kept>* kept);

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_VERIFY_H_
