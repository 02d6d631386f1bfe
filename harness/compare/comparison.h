// Runs the contest's phases and benchmarks over the engine and its peers, in alternating rounds on
// one directory, and takes the claims from the rates.
//
// docs/peers.md says what is measured.
#ifndef HARNESS_COMPARE_COMPARISON_H_
#define HARNESS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/compare/claims.h"
#include "harness/compare/process.h"

namespace engine_race::harness {

struct CompareConfig {
  std::string dir;  // empty and writable; each store gets a directory below it
  std::vector<std::string> stores;
  // Of the contest besides its writing, which always comes first; without any phase and with
  // benchmarks alone the contest is left out.
  std::vector<std::string> phases;
  bool has_contest = true;
  std::vector<std::string> benchmarks;  // a fill comes first
  uint32_t thread_count = 64;
  uint64_t record_count = 0;
  uint32_t value_bytes = kValueBytes;
  uint32_t round_count = 3;
  // Openings of each store in a round, each by a process of its own.
  uint32_t opening_count = 10;
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

  // Takes over the claims that another program has left in a JSON file, its errors, and its reasons
  // for claims that it could not measure.
  void Merge(const std::string& path);
  // Runs all rounds. It ends early when the user interrupts.
  void Run();

  const std::vector<std::string>& errors() const { return errors_; }
  // As docs/peers.md has it.
  nlohmann::json ToJson() const;
  std::string ToTable() const;

 private:
  // False when the user interrupts.
  bool NoteFloor();
  bool RunRound(uint32_t round);
  // The order of a store's first phase in a round.
  CompareOrder OrderOf(const std::string& store, uint32_t round, uint32_t position) const;
  // The calls below run phases of the order's store, one after another. The order has what the
  // store's directory holds so far.
  bool RunStore(CompareOrder order);
  void RunContestOf(CompareOrder* order);
  void RunBenchmarksOf(CompareOrder* order);
  // The writing, and the records that its time limit has left. False when there is nothing to read.
  bool WriteAll(CompareOrder* order);
  // Runs a phase and notes its answer. False when it failed or the user interrupts.
  bool RunPhase(const std::string& phase, CompareOrder* order, uint32_t opening = 0);
  // Gives the order to a process below the cap.
  CompareAnswer RunCapped(CompareOrder order) const;
  void NoteAnswer(const CompareOrder& order, const CompareAnswer& answer);
  bool has_cap() const { return config_.memory_cap_bytes > 0 && no_cap_reason_.empty(); }
  std::string StoreDir() const { return config_.dir + "/store"; }
  bool FreshStoreDir();
  // The reason for each claim without a value.
  std::map<std::string, std::string> WhyNotMeasured() const;
  void Fail(const std::string& what);

  const CompareConfig config_;
  CompareClaims claims_;
  RoundAnswers answers_;  // of the round that runs
  std::vector<nlohmann::json> runs_;
  std::vector<nlohmann::json> failed_runs_;
  std::map<std::string, nlohmann::json> descriptions_;
  std::map<std::string, std::vector<double>> floor_;  // the device's rates by name
  std::map<std::string, nlohmann::json> merged_;
  std::map<std::string, std::string> merged_reasons_;  // of other programs, by claim
  std::string no_cap_reason_;  // empty when there is a cap, or none is wanted
  std::vector<std::string> errors_;
};

}  // namespace engine_race::harness

#endif  // HARNESS_COMPARE_COMPARISON_H_
