#include "harness/measure/claim_rounds.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "harness/measure/median.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {

namespace {

Status AlternatingRound(uint32_t round, const std::vector<Turn>& turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (Interrupted()) return InterruptedStatus();
    ENGINE_RACE_RETURN_IF_ERROR(turns[round % 2 == 0 ? i : turns.size() - 1 - i]());
  }
  return Interrupted() ? InterruptedStatus() : Status::Ok();
}

}  // namespace

void ClaimRounds::NoteRatio(const std::string& name, double a, double b, RatioForm form) {
  if (a <= 0 || b <= 0) return;
  const double ratio = a / b;
  const double figure = form == RatioForm::kOver     ? ratio
                        : form == RatioForm::kGrowth ? ratio - 1
                                                     : 1 - ratio;
  Note(name, figure);
  std::fprintf(stderr, "%s: %.3f (%.1f over %.1f)\n", name.c_str(), figure, a, b);
}

Status ClaimRounds::RunOne(const RoundPlan& plan, uint32_t round, const std::vector<Turn>& turns,
                           const std::vector<RoundRatio>& ratios) {
  const Rounds before = rounds_;
  Status status = AlternatingRound(round, turns);
  if (status.ok() && plan.there_and_back) status = AlternatingRound(round + 1, turns);
  if (!status.ok()) {
    rounds_ = before;
    return status;
  }
  const auto mean_of = [&](const std::string& name) {
    const auto found = rounds_.find(name);
    if (found == rounds_.end()) return 0.0;
    const auto earlier = before.find(name);
    const size_t begin = earlier == before.end() ? 0 : earlier->second.size();
    const size_t count = found->second.size() - begin;
    double sum = 0;
    for (size_t i = begin; i < found->second.size(); ++i) sum += found->second[i];
    return count == 0 ? 0 : sum / static_cast<double>(count);
  };
  for (const RoundRatio& ratio : ratios) {
    NoteRatio(ratio.name, mean_of(ratio.above), mean_of(ratio.below), ratio.form);
  }
  return Status::Ok();
}

Status ClaimRounds::Run(const RoundPlan& plan, const std::vector<Turn>& turns,
                        std::vector<RoundRatio> ratios) {
  for (const ClaimTarget& target : targets_) {
    if (*target.above == '\0') continue;
    ratios.push_back({target.name, target.above, target.below, target.form, target.max_error});
  }
  const Rounds at_first = rounds_;
  if (plan.warms_up) {
    const Status status = RunOne(plan, 0, turns, {});
    rounds_ = at_first;
    ENGINE_RACE_RETURN_IF_ERROR(status);
  }
  const auto is_rough = [&](const RoundRatio& ratio) {
    const auto noted = rounds_.find(ratio.above);
    if (noted == rounds_.end()) return false;
    const auto earlier = at_first.find(ratio.above);
    const bool is_ours = earlier == at_first.end() || earlier->second != noted->second;
    return is_ours && MedianError(ratio.name) > ratio.max_error;
  };
  for (uint32_t round = 0; round < std::max(plan.count, plan.max_count); ++round) {
    if (round >= plan.count && std::none_of(ratios.begin(), ratios.end(), is_rough)) break;
    ENGINE_RACE_RETURN_IF_ERROR(RunOne(plan, round, turns, ratios));
  }
  return Status::Ok();
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

int EndBench(const char* program, const std::string& table, const std::vector<std::string>& errors,
             const nlohmann::json& json, const std::string& json_path) {
  // Before the table: a closed pipe may end the process that prints.
  const bool saved = SaveJson(json, json_path);
  std::printf("%s", table.c_str());
  for (const std::string& what : errors) std::printf("FAILED: %s\n", what.c_str());
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!saved) return Refuse(program, "cannot write " + json_path);
  if (Interrupted()) return kExitInterrupted;
  if (!printed) std::fprintf(stderr, "%s: cannot print to standard output\n", program);
  return errors.empty() && printed ? kExitDone : kExitFailure;
}

}  // namespace engine_race::harness
