// The figures of a bench, round by round, and the claims among them: medians, quartiles, tables.
//
// Not thread-safe.
#ifndef HARNESS_MEASURE_CLAIM_ROUNDS_H_
#define HARNESS_MEASURE_CLAIM_ROUNDS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace harness {

// A figure to show.
struct ClaimTarget {
  const char* name;
  const char* aim;        // in words; empty when it has none
  const char* what = "";  // the meaning, where the name does not say it
};

class ClaimRounds {
 public:
  // `targets` outlives this.
  explicit ClaimRounds(std::span<const ClaimTarget> targets) : targets_(targets) {}

  void Note(const std::string& name, double value) { rounds_[name].push_back(value); }
  // Notes a / b and prints it to standard error. Does nothing when one of them was not measured.
  void NoteRatio(const std::string& name, double a, double b);
  // Sets a figure that is not the median of its rounds but is computed from other medians.
  void Settle(const std::string& name, double value) { settled_[name] = value; }

  std::span<const ClaimTarget> targets() const { return targets_; }
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
  const std::span<const ClaimTarget> targets_;
  std::map<std::string, std::vector<double>> rounds_;
  std::map<std::string, double> settled_;
};

}  // namespace harness

#endif  // HARNESS_MEASURE_CLAIM_ROUNDS_H_
