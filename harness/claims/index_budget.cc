#include "harness/claims/index_budget.h"

#include <algorithm>

#include "engine_race/base/options.h"

namespace harness {
namespace {

// What a store takes beside its index, as a first guess.
constexpr uint64_t kGuessedRestBytes = uint64_t{64} << 20;
// A budget is divided, so a step may give the index less than was added.
constexpr int kMaxSteps = 12;

}  // namespace

bool IndexBudget::Has(uint64_t wanted_bytes) const {
  const uint64_t distance =
      index_bytes > wanted_bytes ? index_bytes - wanted_bytes : wanted_bytes - index_bytes;
  return distance <= wanted_bytes / 10;
}

engine_race::Status FindIndexBudget(uint64_t wanted_bytes, const IndexBytesFn& bytes_under,
                                    IndexBudget* found) {
  constexpr uint64_t kLeast = engine_race::kMinMemoryBudgetBytes;
  uint64_t budget_bytes = std::max(kLeast, wanted_bytes + kGuessedRestBytes);
  for (int step = 0; step < kMaxSteps; ++step) {
    found->budget_bytes = budget_bytes;
    ENGINE_RACE_RETURN_IF_ERROR(bytes_under(budget_bytes, &found->index_bytes));
    // Without any bytes the store does not divide its budget this way.
    if (found->Has(wanted_bytes) || found->index_bytes == 0) break;
    const uint64_t excess =
        found->index_bytes > wanted_bytes ? found->index_bytes - wanted_bytes : 0;
    const uint64_t missing =
        wanted_bytes > found->index_bytes ? wanted_bytes - found->index_bytes : 0;
    if (excess > 0 && budget_bytes == kLeast) break;
    budget_bytes = std::max(kLeast, budget_bytes + missing - std::min(budget_bytes, excess));
  }
  return engine_race::Status::Ok();
}

engine_race::Status ChooseIndexBudget(const IndexBenchRun& run, const std::string& name,
                                      uint64_t wanted_bytes, const IndexBytesFn& bytes_under,
                                      uint64_t* budget_bytes) {
  IndexBudget found;
  ENGINE_RACE_RETURN_IF_ERROR(FindIndexBudget(wanted_bytes, bytes_under, &found));
  if (!found.Has(wanted_bytes)) {
    run.Complain(name + ": memory of " + std::to_string(found.index_bytes) +
                 " bytes for the index, not " + std::to_string(wanted_bytes));
  }
  (*run.about)[name] = {{"wanted_bytes", wanted_bytes},
                        {"got_bytes", found.index_bytes},
                        {"memory_budget_bytes", found.budget_bytes}};
  *budget_bytes = found.budget_bytes;
  return engine_race::Status::Ok();
}

}  // namespace harness
