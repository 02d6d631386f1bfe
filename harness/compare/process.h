// Gives each phase of a comparison a process of its own, below a cap on memory.
//
// The process is the same program, run again with a flag of its own. A program that calls
// RunCompareProcess begins its main with ComparePhaseMain. Not thread-safe.
#ifndef HARNESS_COMPARE_PROCESS_H_
#define HARNESS_COMPARE_PROCESS_H_

#include <optional>
#include <string>
#include <vector>

#include "harness/compare/order.h"
#include "harness/kv/kv_store.h"

namespace harness {

// The engine and the peers that this program was linked with.
std::vector<KvStoreKind> ComparedStores();

// Runs the order's phase in a process of its own and waits for it. A process that dies, or that
// does not end in time, gives an answer with an error.
CompareAnswer RunCompareProcess(const CompareOrder& order);

// When this process was started by RunCompareProcess, runs the phase and returns the exit code.
std::optional<int> ComparePhaseMain(int argc, char** argv);

}  // namespace harness

#endif  // HARNESS_COMPARE_PROCESS_H_
