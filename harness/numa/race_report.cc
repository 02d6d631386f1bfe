#include "harness/numa/race_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine_race/base/key.h"
#include "harness/measure/table.h"

namespace engine_race::harness {
namespace {

using numa::FormatList;
using numa::Topology;

std::string RateText(double bytes_per_second) { return Fixed(bytes_per_second * 1e-6, 1); }
// Of the CPU time of all instances.
double CpuShare(const InstancePhase& phase, const PhaseSum& sum) {
  return sum.cpu_seconds > 0 ? phase.cpu_seconds / sum.cpu_seconds : 0;
}

std::vector<std::string> RowOf(const InstanceResult& result, const InstancePhase& phase,
                               const PhaseSum& sum) {
  const double busy = BusyCpus(phase);
  std::vector<std::string> cells = {
      std::to_string(result.plan.number),
      FormatList(result.plan.cpu_nodes),
      Fixed(phase.seconds, 2),
      RateText(phase.seconds > 0 ? static_cast<double>(phase.bytes) / phase.seconds : 0),
      Fixed(busy * 100, 0),
      Fixed(CpuShare(phase, sum) * 100, 1),
      Fixed(busy * 100 / std::max(1u, result.plan.cpu_count), 0)};
  if (!phase.placement) {
    cells.insert(cells.end(), {"-", "-", "-", "-"});
    return cells;
  }
  const ProcessMemory& placement = *phase.placement;
  for (const MemoryKind kind : {MemoryKind::kCode, MemoryKind::kHeap, MemoryKind::kAnonymous}) {
    cells.push_back(ShareText(placement.Of(kind).local_share));
  }
  cells.push_back(Fixed(placement.All().distance, 2));
  return cells;
}

nlohmann::json JsonOf(const InstancePhase& phase, const PhaseSum& sum, const Topology& topology) {
  nlohmann::json json = static_cast<const PhaseFigures&>(phase);
  json["phase"] = phase.name;
  json["busy_cpus"] = BusyCpus(phase);
  json["cpu_share"] = CpuShare(phase, sum);
  json["bytes"] = phase.bytes;
  json["placement"] = nullptr;
  if (phase.placement) {
    json["placement"] = PlacementJson({*phase.placement}, topology).at("processes").at(0);
  }
  return json;
}

}  // namespace

PhaseSum SumOfPhase(const std::vector<InstanceResult>& results, size_t phase) {
  PhaseSum sum;
  for (const InstanceResult& result : results) {
    const InstancePhase& one = result.phases.at(phase);
    sum.bytes += one.bytes;
    sum.seconds = std::max(sum.seconds, one.seconds);
    sum.cpu_seconds += one.cpu_seconds;
  }
  return sum;
}

double BusyCpus(const InstancePhase& phase) {
  return phase.seconds > 0 ? phase.cpu_seconds / phase.seconds : 0;
}

std::optional<double> LeastLocalShare(const std::vector<InstanceResult>& results, MemoryKind kind) {
  std::optional<double> least;
  for (const InstanceResult& result : results) {
    for (const InstancePhase& phase : result.phases) {
      if (!phase.placement) return std::nullopt;
      const std::optional<double> share = phase.placement->Of(kind).local_share;
      if (share) least = std::min(least.value_or(1), *share);
    }
  }
  return least;
}

std::string RaceText(const std::vector<InstanceResult>& results) {
  std::string text;
  for (size_t p = 0; !results.empty() && p < results.front().phases.size(); ++p) {
    Table table({"instance", "nodes", "seconds", "MB/s", "CPU %", "CPU of all %", "of its CPUs %",
                 "code local %", "heap local %", "anonymous local %", "distance"});
    const PhaseSum sum = SumOfPhase(results, p);
    for (const InstanceResult& result : results) {
      table.AddRow(RowOf(result, result.phases.at(p), sum));
    }
    table.AddRow({"all", "", Fixed(sum.seconds, 2), RateText(sum.BytesPerSecond()),
                  Fixed(sum.seconds > 0 ? sum.cpu_seconds / sum.seconds * 100 : 0, 0), "", "", "",
                  "", "", ""});
    text += results.front().phases[p].name + "\n" + table.ToString() + "\n";
  }
  return text;
}

nlohmann::json RaceJson(const std::vector<InstanceResult>& results, TextMode text,
                        const Topology& topology, const std::string& note) {
  nlohmann::json instances = nlohmann::json::array();
  for (const InstanceResult& result : results) {
    nlohmann::json phases = nlohmann::json::array();
    for (size_t p = 0; p < result.phases.size(); ++p) {
      phases.push_back(JsonOf(result.phases[p], SumOfPhase(results, p), topology));
    }
    instances.push_back({{"number", result.plan.number},
                         {"cpu_nodes", result.plan.cpu_nodes},
                         {"memory_nodes", result.plan.memory_nodes},
                         {"cpu_count", result.plan.cpu_count},
                         {"keys", ToString(result.plan.keys)},
                         {"dir", result.plan.dir},
                         {"phases", phases}});
  }
  nlohmann::json sums = nlohmann::json::array();
  for (size_t p = 0; !results.empty() && p < results.front().phases.size(); ++p) {
    const PhaseSum sum = SumOfPhase(results, p);
    sums.push_back({{"phase", results.front().phases[p].name},
                    {"bytes", sum.bytes},
                    {"seconds", sum.seconds},
                    {"cpu_seconds", sum.cpu_seconds},
                    {"bytes_per_second", sum.BytesPerSecond()}});
  }
  nlohmann::json json = PlacementJson({}, topology);
  json.erase("processes");
  json["text"] = TextModeName(text);
  json["note"] = note;
  json["instances"] = instances;
  json["sums"] = sums;
  const auto share = [&](MemoryKind kind) -> nlohmann::json {
    const std::optional<double> least = LeastLocalShare(results, kind);
    return least ? nlohmann::json(*least) : nlohmann::json(nullptr);
  };
  json["code_local"] = share(MemoryKind::kCode);
  json["heap_local"] = share(MemoryKind::kHeap);
  json["anonymous_local"] = share(MemoryKind::kAnonymous);
  json["stacks_local"] = share(MemoryKind::kStacks);
  return json;
}

}  // namespace engine_race::harness
