// The measured claims about safety: the costs of verification, checksums and durable writes.
//
// Each comparison is a pair of short runs that follow each other; every other round swaps them. A
// claim is the median of its rounds. Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_SAFETY_H_
#define HARNESS_CLAIMS_BENCH_SAFETY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/load/store_runs.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct SafetyConfig {
  std::string dir;  // empty and writable
  uint32_t thread_count = 64;
  uint64_t record_count = 1000000;
  uint32_t round_count = 9;
  double seconds = 2;  // of each timed run that has no end of its own
  uint64_t seed = 1;
  // Of the comparisons "durable", "write", "close", "read" and "range"; all of them when empty.
  std::set<std::string> parts;
};

// While true, a value's checksum is a constant, so that a write's cost without it can be measured.
// Only this program is linked with a checksum function that has this switch.
extern std::atomic<bool> leave_out_checksums;

class BenchSafety {
 public:
  explicit BenchSafety(const SafetyConfig& config);

  // False when something failed; errors() says what.
  bool Run();
  // Takes over the result of the mutants from the file that scripts/mutants.py has written.
  void AddMutants(const std::string& path);

  const std::vector<std::string>& errors() const { return errors_; }
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  using Rate = std::function<double()>;

  std::string store_dir() const { return config_.dir + "/store"; }
  engine_race::Options OptionsOf(bool verify) const;
  void RemoveStore();

  // Records a second; 0 after a failure.
  double RateOf(const TimedRun& run);
  double WriteAll(bool sync_on_close = false);
  double ReadFor(bool verify);
  double RangeOnce(bool verify);
  double GroupSync();

  bool Wants(const char* part) const {
    return config_.parts.empty() || config_.parts.contains(part);
  }
  void CompareReads();
  void CompareRanges();
  void CompareWrites();
  void CompareDurableWrites();
  void CompareClosing();
  // Notes 1 - with / without as the claim's figure.
  void NoteCost(const char* claim, uint32_t round, const Rate& with, const Rate& without);
  void Fail(const std::string& what);

  const SafetyConfig config_;
  StoreRuns runs_;
  ClaimRounds rounds_;
  nlohmann::json mutants_;
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_SAFETY_H_
