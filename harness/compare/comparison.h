// Runs the contest's phases and benchmarks over the engine and its peers, in alternating rounds on
// one directory, and takes the claims from the rates.
//
// docs/peers.md says what is measured.
#ifndef HARNESS_COMPARE_COMPARISON_H_
#define HARNESS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/compare/process.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

// The claims of a comparison, from the answers of each round.
//
// A claim is noted only for a round in which every store that it is about has answered. Other
// rounds give a figure, whose name says what was missing.

// Answers of a round by store and phase. A phase of several openings has several.
using RoundAnswers = std::map<std::string, std::map<std::string, std::vector<CompareAnswer>>>;

class CompareClaims {
 public:
  // `stores` take part in each round. `all_peers` are the peers that claims of a best one are
  // about.
  CompareClaims(std::vector<std::string> stores, std::vector<std::string> all_peers);

  // The memory of phases has no cap, although one is wanted. Ratios are no claims from now on.
  void LackCap() { lacks_cap_ = true; }
  void NoteRound(const RoundAnswers& answers);
  // Takes over a claim of another program. False when no claim has this name.
  bool TakeOver(const std::string& name, double value);

  // Why the rounds gave no value to this claim, which must be one that this program measures.
  // `phases` were run. `no_cap_reason` says why there was no cap; empty if there was one or none
  // was wanted.
  std::string WhyUnmeasured(const std::string& name, const std::vector<std::string>& phases,
                            const std::string& no_cap_reason) const;
  // The claims without a value.
  std::vector<std::string> Unmeasured() const;
  // Whether another program measures this claim.
  static bool IsOfAnotherProgram(const std::string& name);

  const ClaimRounds& rounds() const { return rounds_; }

 private:
  void NoteBest(const RoundAnswers& answers, const char* claim);
  void NoteOpenings(const RoundAnswers& answers, const char* claim, const char* phase);

  void NoteRatio(const std::string& name, double a, double b);

  const std::vector<std::string> stores_;
  const std::vector<std::string> all_peers_;
  ClaimRounds rounds_;
  bool lacks_cap_ = false;
  // Phases of a round in which the engine had fewer records than the dataset.
  std::set<std::string> cut_off_phases_;
};

// A comparison's runs as tables for the terminal: losses beside wins.

// For each phase a table of its stores: the medians of their rounds, and the spread of the rates.
std::string PhaseTables(const nlohmann::json& runs);
// The engine beside the best of the others, phase by phase. A store that reads fewer records than
// the dataset has is never the best one. A note names these stores and those of `failed_runs`.
std::string WinsTable(const nlohmann::json& runs, const nlohmann::json& failed_runs);

struct CompareConfig : CompareLoad {
  std::vector<std::string> stores;
  // Of the contest besides its writing, which always comes first; without any phase and with
  // benchmarks alone the contest is left out.
  std::vector<std::string> phases;
  bool has_contest = true;
  std::vector<std::string> benchmarks;  // a fill comes first
  uint32_t round_count = 3;
  // Openings of each store in a round, each by a process of its own.
  uint32_t opening_count = 10;
  double phase_seconds = 120;
  // The limit of phases that fill a store. 0: three times that of the others, because a store that
  // holds fewer records than the others may fit into memory.
  double fill_seconds = 0;
  // Of each phase's process, its page cache included; 0: no cap.
  uint64_t memory_cap_bytes = 0;
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
