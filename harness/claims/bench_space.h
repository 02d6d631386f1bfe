// The measured claims about space: what a store that is overwritten takes and writes, how fast it
// is then, and what reclaim costs.
//
// Each measurement makes its stores and removes them. Compared runs alternate in short turns; a
// claim is the median of its rounds. A measurement that fails does not keep the others from being
// made. Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_SPACE_H_
#define HARNESS_CLAIMS_BENCH_SPACE_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/claims/space_config.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

std::vector<std::string> SpaceMeasurementNames();

// Disk that the wanted measurements need at most. One is made after another.
uint64_t SpaceNeeded(const SpaceConfig& config);

class BenchSpace {
 public:
  explicit BenchSpace(const SpaceConfig& config);

  // False when something failed; errors() says what. Calls `after_each` when there is something new
  // to save.
  bool Run(const std::function<void()>& after_each);

  const std::vector<std::string>& errors() const { return errors_; }
  // {"claims", "figures", "rounds", "about", "config", "machine", "errors"}
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  const SpaceConfig config_;
  ClaimRounds rounds_;
  nlohmann::json about_ = nlohmann::json::object();
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_SPACE_H_
