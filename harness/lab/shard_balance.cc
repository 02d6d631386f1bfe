#include "harness/lab/shard_balance.h"

#include <algorithm>
#include <cmath>

namespace lab {

namespace {

// Loads that differ by less than this share of the mean are even: a step must bring them that much
// closer.
constexpr double kTolerance = 0.1;
// A move can be undone, a cut cannot. So a cut must leave at most this share of the difference that
// the best move leaves.
constexpr double kCutGain = 0.5;

double LoadOf(const std::vector<SubTableHeat>& heats) {
  double load = 0;
  for (const SubTableHeat& heat : heats) load += static_cast<double>(heat.get_count);
  return load;
}

// A key that splits the samples of a sub-table as near their middle as possible; empty when all
// samples are the same key.
std::string MiddleOf(const Routes& routes, SubTableHeat heat) {
  std::vector<std::string>& samples = heat.samples;
  const uint32_t sub = routes.Find(heat.id);
  if (sub == routes.subs.size()) return {};
  // Drops samples from before the sub-table was cut.
  std::erase_if(samples, [&](const std::string& key) {
    return routes.SubOf(routes.subs[sub].table, key.data()) != sub;
  });
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::string& middle = samples[samples.size() / 2];
  if (middle != samples.front()) return middle;
  const auto above = std::upper_bound(samples.begin(), samples.end(), middle);
  return above == samples.end() ? std::string() : *above;
}

}  // namespace

ShardPlan PlanBalance(const Routes& routes, std::span<const std::vector<SubTableHeat>> heats) {
  ShardPlan plan;
  std::vector<double> loads;
  double sum = 0;
  for (const std::vector<SubTableHeat>& worker : heats) {
    loads.push_back(LoadOf(worker));
    sum += loads.back();
  }
  const auto [coolest, hottest] = std::minmax_element(loads.begin(), loads.end());
  const double tolerance = kTolerance * sum / static_cast<double>(loads.size());
  const double gap = *hottest - *coolest;
  if (gap <= tolerance) return plan;
  plan.worker = static_cast<uint32_t>(coolest - loads.begin());

  const std::vector<SubTableHeat>& hot = heats[static_cast<size_t>(hottest - loads.begin())];
  // The difference that would remain.
  const auto left = [gap](double moved) { return std::abs(gap - 2 * moved); };
  double best = gap - tolerance;
  const SubTableHeat* most = nullptr;
  for (const SubTableHeat& heat : hot) {
    const auto load = static_cast<double>(heat.get_count);
    if (most == nullptr || heat.get_count > most->get_count) most = &heat;
    if (left(load) >= best) continue;
    best = left(load);
    plan.kind = ShardPlan::Kind::kMove;
    plan.sub_table = heat.id;
  }
  const double after_cut = left(static_cast<double>(most->get_count) / 2);
  const bool can_move = plan.kind == ShardPlan::Kind::kMove;
  if (after_cut >= (can_move ? best * kCutGain : best)) return plan;
  std::string middle = MiddleOf(routes, *most);
  if (middle.empty()) return plan;
  plan.kind = ShardPlan::Kind::kSplit;
  plan.sub_table = most->id;
  plan.key = std::move(middle);
  return plan;
}

}  // namespace lab
