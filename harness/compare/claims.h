// The claims of a comparison, from the answers of each round.
//
// A claim is noted only for a round in which every store that it is about has answered. Other
// rounds give a figure, whose name says what was missing.
#ifndef HARNESS_COMPARE_CLAIMS_H_
#define HARNESS_COMPARE_CLAIMS_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/compare/process.h"
#include "harness/measure/claim_rounds.h"

namespace engine_race::harness {

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

}  // namespace engine_race::harness

#endif  // HARNESS_COMPARE_CLAIMS_H_
