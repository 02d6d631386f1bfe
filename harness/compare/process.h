// Gives each phase of a comparison a process of its own, below a cap on memory.
//
// A program that calls RunCompareProcess has kCompareWork among the works of its children. Not
// thread-safe.
#ifndef HARNESS_COMPARE_PROCESS_H_
#define HARNESS_COMPARE_PROCESS_H_

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/compare/order.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

// The engine and the peers that this program was linked with.
std::vector<KvStoreKind> ComparedStores();

// Runs the order's phase in a process of its own and waits for it. A process that dies, or that
// does not end in time, gives an answer with an error.
CompareAnswer RunCompareProcess(const CompareOrder& order);

inline constexpr char kCompareWork[] = "compared-phase";
Status RunCompareWork(const nlohmann::json& order, nlohmann::json* answer);

}  // namespace engine_race::harness

#endif  // HARNESS_COMPARE_PROCESS_H_
