// Finds the memory budget under which a store gives a wanted number of bytes to its index.
//
// Stateless.
#ifndef HARNESS_CLAIMS_INDEX_BUDGET_H_
#define HARNESS_CLAIMS_INDEX_BUDGET_H_

#include <cstdint>
#include <functional>
#include <string>

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

// Opens the store with a budget and gives the bytes that the index may have under it.
using IndexBytesFn =
    std::function<engine_race::Status(uint64_t budget_bytes, uint64_t* index_bytes)>;

struct IndexBudget {
  uint64_t budget_bytes = 0;
  uint64_t index_bytes = 0;  // under that budget

  // Whether index_bytes is within a tenth of `wanted_bytes`.
  bool Has(uint64_t wanted_bytes) const;
};

// Tries budgets until one gives `wanted_bytes`, within a tenth. Otherwise the last one that was
// tried: when the store's least budget gives more, or no budget leads nearer.
engine_race::Status FindIndexBudget(uint64_t wanted_bytes, const IndexBytesFn& bytes_under,
                                    IndexBudget* found);

// Finds such a budget for the part `name` of the bench and notes it among what was measured. An
// error of the run if no budget gives `wanted_bytes`; the nearest one is taken then.
engine_race::Status ChooseIndexBudget(const IndexBenchRun& run, const std::string& name,
                                      uint64_t wanted_bytes, const IndexBytesFn& bytes_under,
                                      uint64_t* budget_bytes);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_BUDGET_H_
