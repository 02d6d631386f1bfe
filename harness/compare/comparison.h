// Runs the contest's phases and benchmarks over the engine and its peers, in alternating rounds on
// one directory, and takes the claims from the rates.
//
// docs/peers.md says what is measured. Not thread-safe.
#ifndef HARNESS_COMPARE_COMPARISON_H_
#define HARNESS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/compare/order.h"
#include "harness/measure/claim_rounds.h"
#include "harness/system/memory_cgroup.h"

namespace harness {

struct CompareConfig {
  std::string dir;  // empty and writable; each store gets a directory below it
  std::vector<std::string> stores;
  // Of the contest besides its writing, which always comes first; without any phase and with
  // benchmarks alone the contest is left out.
  std::vector<std::string> phases;
  bool has_contest = true;
  std::vector<std::string> benchmarks;
  uint32_t thread_count = 64;
  uint64_t record_count = 0;
  uint32_t round_count = 3;
  double phase_seconds = 120;
  // The limit of phases that fill a store. 0: three times that of the others, because a store that
  // holds fewer records than the others may fit into memory.
  double fill_seconds = 0;
  uint64_t seed = 1;
  // Of each phase's process, its page cache included; 0: no cap.
  uint64_t memory_cap_bytes = 0;
  // Given to each store as its budget.
  uint64_t memory_budget_bytes = 0;
  bool dense_keys = false;
  // Moved by fio to measure the device's rates; 0: they are not measured.
  uint64_t floor_bytes = 0;
};

// Disk space that the comparison takes at most: one store lies there at a time.
uint64_t NeededBytes(const CompareConfig& config);

class Comparison {
 public:
  explicit Comparison(CompareConfig config);

  // Takes over the claims that another program has left in a JSON file.
  void Merge(const std::string& path);
  // Runs all rounds. It ends early when the user interrupts.
  void Run();

  const std::vector<std::string>& errors() const { return errors_; }
  // As docs/peers.md has it.
  nlohmann::json ToJson() const;
  std::string ToTable() const;

 private:
  // Answers of a round by store and phase.
  using Answers = std::map<std::string, std::map<std::string, CompareAnswer>>;

  // False when the user interrupts.
  bool NoteFloor();
  bool RunStore(const std::string& store, uint32_t round);
  void RunContestOf(const std::string& store, uint32_t round);
  void RunBenchmarksOf(const std::string& store, uint32_t round);
  CompareAnswer RunPhase(const std::string& store, const std::string& phase, uint32_t round,
                         uint64_t written_count);
  // Takes the round's claims.
  void NoteRound();
  void NoteBest(const char* claim, const char* phase);
  double RateOf(const std::string& store, const std::string& phase) const;
  std::string StoreDir() const { return config_.dir + "/store"; }
  bool FreshStoreDir();
  void Fail(const std::string& what);

  const CompareConfig config_;
  ClaimRounds rounds_;
  Answers answers_;  // of the round that runs
  std::vector<nlohmann::json> runs_;
  std::map<std::string, nlohmann::json> descriptions_;
  std::map<std::string, std::vector<double>> floor_;  // the device's rates by name
  std::map<std::string, nlohmann::json> merged_;
  std::string cap_word_;  // why there is no cap, or empty
  std::vector<std::string> errors_;
};

}  // namespace harness

#endif  // HARNESS_COMPARE_COMPARISON_H_
