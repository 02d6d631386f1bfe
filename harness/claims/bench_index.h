// The measured claims about the index: on disk and larger than memory, opened at once, and in
// memory.
//
// Each part makes its stores, measures its claims and removes the stores. Compared runs alternate
// in short rounds; a claim is the median of its rounds. A part that fails does not keep the others
// from being measured.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_INDEX_H_
#define HARNESS_CLAIMS_BENCH_INDEX_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/claims/index_bench_config.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

std::vector<std::string> IndexClaimNames();

class BenchIndex {
 public:
  explicit BenchIndex(const IndexBenchConfig& config);

  // False when something failed; errors() says what. Calls `after_part` when there is something new
  // to save.
  bool Run(const std::function<void()>& after_part);

  const std::vector<std::string>& errors() const { return errors_; }
  // {"claims", "what", "figures", "rounds", "config", "machine", "errors", ...}
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  void RemoveStores() const;

  const IndexBenchConfig config_;
  ClaimRounds rounds_;
  nlohmann::json about_ = nlohmann::json::object();
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_INDEX_H_
