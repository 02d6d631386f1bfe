// The figures of a bench, round by round, and the claims among them: medians, quartiles, tables.
//
// Not synchronised.
#ifndef HARNESS_MEASURE_CLAIM_ROUNDS_H_
#define HARNESS_MEASURE_CLAIM_ROUNDS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace harness {

// A figure that is to be shown, and what is hoped for, in words; empty where nothing is.
struct ClaimTarget {
  const char* name;
  const char* aim;
};

class ClaimRounds {
 public:
  // `targets` outlives this.
  explicit ClaimRounds(std::span<const ClaimTarget> targets) : targets_(targets) {}

  void Note(const std::string& name, double value) { rounds_[name].push_back(value); }
  // a / b, said to standard error as well; nothing when one of them could not be had.
  void NoteRatio(const std::string& name, double a, double b);
  // A figure that is not the median of its rounds but was made of other medians.
  void Settle(const std::string& name, double value) { settled_[name] = value; }

  bool has(const std::string& name) const { return rounds_.contains(name); }
  // Of a figure's rounds; 0 when it has none.
  double Median(const std::string& name) const;
  // About how far the median of a figure's rounds may lie from that of many more: its standard
  // error, from the quartiles. Infinite below three rounds.
  double MedianError(const std::string& name) const;
  // Of a figure that has some.
  const std::vector<double>& rounds(const std::string& name) const { return rounds_.at(name); }

  // The targets that were measured.
  std::map<std::string, double> Claims() const;
  // {"claims": {...}, "figures": {name: {median, lower_quartile, upper_quartile, and median_error
  // from three rounds on}}, "rounds": {...}}
  nlohmann::json ToJson() const;
  // The claims beside what is hoped for, then every figure with its quartiles.
  std::string ToTable() const;

 private:
  const std::span<const ClaimTarget> targets_;
  std::map<std::string, std::vector<double>> rounds_;
  std::map<std::string, double> settled_;
};

}  // namespace harness

#endif  // HARNESS_MEASURE_CLAIM_ROUNDS_H_
