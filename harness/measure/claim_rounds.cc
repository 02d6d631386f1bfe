#include "harness/measure/claim_rounds.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "harness/measure/median.h"
#include "harness/measure/table.h"

namespace harness {

void ClaimRounds::NoteRatio(const std::string& name, double a, double b) {
  if (a <= 0 || b <= 0) return;
  Note(name, a / b);
  std::fprintf(stderr, "%s: %.3f (%.1f over %.1f)\n", name.c_str(), a / b, a, b);
}

std::string ClaimRounds::FirstWithPrefix(const std::string& prefix) const {
  const auto found = rounds_.lower_bound(prefix);
  return found != rounds_.end() && found->first.starts_with(prefix) ? found->first : "";
}

double ClaimRounds::Median(const std::string& name) const {
  const auto rounds = rounds_.find(name);
  return rounds == rounds_.end() ? 0 : MedianOf(rounds->second);
}

double ClaimRounds::MedianError(const std::string& name) const {
  const auto rounds = rounds_.find(name);
  if (rounds == rounds_.end() || rounds->second.size() < 3) {
    return std::numeric_limits<double>::infinity();
  }
  // For a normal distribution the quartiles lie 1.349 standard deviations apart. The standard error
  // of the median of n samples is 1.2533 standard deviations over the root of n.
  const double deviation =
      (QuantileOf(rounds->second, 0.75) - QuantileOf(rounds->second, 0.25)) / 1.349;
  return 1.2533 * deviation / std::sqrt(static_cast<double>(rounds->second.size()));
}

std::map<std::string, double> ClaimRounds::Claims() const {
  std::map<std::string, double> claims;
  for (const ClaimTarget& target : targets_) {
    const auto settled = settled_.find(target.name);
    if (settled != settled_.end()) {
      claims[target.name] = settled->second;
    } else if (has(target.name)) {
      claims[target.name] = Median(target.name);
    }
  }
  return claims;
}

nlohmann::json ClaimRounds::ToJson() const {
  nlohmann::json figures = nlohmann::json::object();
  for (const auto& [name, values] : rounds_) {
    figures[name] = {{"median", MedianOf(values)},
                     {"lower_quartile", QuantileOf(values, 0.25)},
                     {"upper_quartile", QuantileOf(values, 0.75)}};
    if (values.size() >= 3) figures[name]["median_error"] = MedianError(name);
  }
  return {{"claims", Claims()}, {"figures", figures}, {"rounds", rounds_}};
}

std::string ClaimRounds::ToTable() const {
  Table table({"claim", "aim", "measured"});
  const std::map<std::string, double> claims = Claims();
  for (const ClaimTarget& target : targets_) {
    const auto claim = claims.find(target.name);
    table.AddRow({target.name, target.aim,
                  claim == claims.end() ? "not measured" : Fixed(claim->second, 3)});
  }
  Table raw({"figure", "lower quartile", "median", "upper quartile", "rounds"});
  for (const auto& [name, values] : rounds_) {
    raw.AddRow({name, Fixed(QuantileOf(values, 0.25), 3), Fixed(MedianOf(values), 3),
                Fixed(QuantileOf(values, 0.75), 3), std::to_string(values.size())});
  }
  return table.ToString() + "\n" + raw.ToString();
}

}  // namespace harness
