// Rounds of runs that are compared. The figures of a bench, round by round, and the claims among
// them: medians, quartiles, tables.
#ifndef HARNESS_MEASURE_CLAIM_ROUNDS_H_
#define HARNESS_MEASURE_CLAIM_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// Runs one side of a comparison; a failure ends the rounds. A run may start threads of its own.
using Turn = std::function<Status()>;

// How a figure follows from those of its two sides.
enum class RatioForm {
  kOver,    // above / below
  kGrowth,  // above / below - 1
  kLoss,    // 1 - above / below
};

inline constexpr double kAnyError = std::numeric_limits<double>::infinity();

// A figure to show.
struct ClaimTarget {
  const char* name;
  const char* aim;        // in words; empty when it has none
  const char* what = "";  // the meaning, where the name does not say it
  // The figures of its sides, if it follows from them: a RoundRatio of the rounds that note both.
  const char* above = "";
  const char* below = "";
  RatioForm form = RatioForm::kOver;
  double max_error = kAnyError;
};

// A figure that follows from two others: from the mean of what a round has noted of each.
struct RoundRatio {
  std::string name;
  std::string above;
  std::string below;
  RatioForm form = RatioForm::kOver;
  double max_error = kAnyError;  // the largest that its median should have
};

struct RoundPlan {
  uint32_t count = 1;
  // More rounds than `count`, up to this many, while the median of some ratio is too rough.
  uint32_t max_count = 0;
  // One more round comes first and is not counted.
  bool warms_up = false;
  // Each round goes there and back: a side runs once before and once after the others. So neither
  // drift nor the effects of the run before are part of their difference.
  bool there_and_back = false;
};

class ClaimRounds {
 public:
  explicit ClaimRounds(std::span<const ClaimTarget> targets)
      : targets_(targets.begin(), targets.end()) {}

  void SetTargets(std::vector<ClaimTarget> targets) { targets_ = std::move(targets); }

  // Runs rounds of turns, which note their figures here. Every side runs once in a round, and every
  // other round goes from the last side to the first. Drift, such as a disk's burst allowance or a
  // neighbour's load, then affects all sides alike. After each round it notes these ratios
  // and those of the targets, as far as the round has noted both of their figures. Returns a turn's
  // failure or InterruptedStatus, and forgets what the round that it ended had noted.
  Status Run(const RoundPlan& plan, const std::vector<Turn>& turns,
             std::vector<RoundRatio> ratios = {});

  void Note(const std::string& name, double value) { rounds_[name].push_back(value); }
  // Notes a ratio and prints it to standard error. Does nothing when a or b was not measured.
  void NoteRatio(const std::string& name, double a, double b, RatioForm form = RatioForm::kOver);
  // Sets a figure that is not the median of its rounds but is computed from other medians.
  void Settle(const std::string& name, double value) { settled_[name] = value; }

  const std::vector<ClaimTarget>& targets() const { return targets_; }
  bool has(const std::string& name) const { return rounds_.contains(name); }
  // The first figure by name that begins so; empty when none does.
  std::string FirstWithPrefix(const std::string& prefix) const;
  // The median of a figure's rounds; 0 when it has none.
  double Median(const std::string& name) const;
  // The standard error of the median of a figure's rounds, estimated from the quartiles. Infinite
  // below three rounds.
  double MedianError(const std::string& name) const;
  // The rounds of a figure that has at least one.
  const std::vector<double>& rounds(const std::string& name) const { return rounds_.at(name); }

  // The measured targets.
  std::map<std::string, double> Claims() const;
  // {"claims": {...}, "figures": {name: {median, lower_quartile, upper_quartile, and median_error
  // from three rounds on}}, "rounds": {...}}
  nlohmann::json ToJson() const;
  // The claims beside their aims, then every figure with its quartiles.
  std::string ToTable() const;

 private:
  using Rounds = std::map<std::string, std::vector<double>>;

  Status RunOne(const RoundPlan& plan, uint32_t round, const std::vector<Turn>& turns,
                const std::vector<RoundRatio>& ratios);

  std::vector<ClaimTarget> targets_;
  Rounds rounds_;
  std::map<std::string, double> settled_;
};

// The end of a bench: prints its table and failures, saves its JSON.

// Prints the table and the failures, and saves the figures unless `json_path` is empty. Returns the
// exit code.
int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path);

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_CLAIM_ROUNDS_H_
