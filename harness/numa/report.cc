#include "harness/numa/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine_race/base/key.h"
#include "harness/measure/table.h"

namespace engine_race::harness {

namespace {

using numa::FormatList;
using numa::Node;
using numa::Topology;

constexpr size_t kAll = kMemoryKinds.size();

std::string KindName(size_t kind) {
  return kind == kAll ? "all" : MemoryKindName(kMemoryKinds[kind]);
}

std::string MebibyteText(uint64_t bytes) { return Fixed(static_cast<double>(bytes) * 0x1p-20, 2); }

std::string Heading(const ProcessMemory& process) {
  std::string text = std::to_string(process.pid) + " " + process.name;
  text += std::string(process.is_bound ? "" : ", not bound") + ", local nodes " +
          FormatList(process.local_nodes);
  if (process.huge_code_bytes > 0) {
    text += ", " + MebibyteText(process.huge_code_bytes) + " MiB of code on huge pages";
  }
  return text + "\n";
}

std::string TableOf(const ProcessMemory& process) {
  std::vector<std::string> heads = {"MiB"};
  std::vector<uint32_t> nodes;
  for (const auto& [node, count] : process.All().bytes) {
    nodes.push_back(node);
    heads.push_back("node " + std::to_string(node));
  }
  heads.insert(heads.end(), {"sum", "local %", "distance"});
  Table table(heads);
  for (size_t kind = 0; kind <= kAll; ++kind) {
    const ProcessMemory::Kind& row = process.kinds[kind];
    std::vector<std::string> cells = {KindName(kind)};
    for (const uint32_t node : nodes) {
      const auto found = row.bytes.find(node);
      cells.push_back(MebibyteText(found == row.bytes.end() ? 0 : found->second));
    }
    const uint64_t sum = SumOf(row.bytes);
    cells.push_back(MebibyteText(sum));
    cells.push_back(ShareText(row.local_share));
    cells.push_back(sum == 0 ? "-" : Fixed(row.distance, 2));
    table.AddRow(cells);
  }
  return table.ToString();
}

nlohmann::json JsonOf(const NodeBytes& bytes) {
  nlohmann::json by_node = nlohmann::json::object();
  for (const auto& [node, count] : bytes) by_node[std::to_string(node)] = count;
  return by_node;
}

nlohmann::json JsonOf(const std::map<std::string, NodeBytes>& groups) {
  nlohmann::json by_name = nlohmann::json::object();
  for (const auto& [name, bytes] : groups) by_name[name] = {{"bytes_by_node", JsonOf(bytes)}};
  return by_name;
}

nlohmann::json JsonOf(const ProcessMemory::Kind& kind) {
  return {{"bytes_by_node", JsonOf(kind.bytes)},
          {"bytes", SumOf(kind.bytes)},
          {"local_share", kind.local_share ? nlohmann::json(*kind.local_share) : nlohmann::json()},
          {"distance", kind.distance}};
}

ProcessMemory::Kind KindOf(const nlohmann::json& json) {
  ProcessMemory::Kind kind;
  for (const auto& [node, count] : json.at("bytes_by_node").items()) {
    kind.bytes[static_cast<uint32_t>(std::stoul(node))] = count.get<uint64_t>();
  }
  const nlohmann::json& share = json.at("local_share");
  if (!share.is_null()) kind.local_share = share.get<double>();
  kind.distance = json.at("distance").get<double>();
  return kind;
}

ProcessMemory SummaryOf(const nlohmann::json& json) {
  ProcessMemory process;
  process.pid = json.at("pid").get<int64_t>();
  process.name = json.at("name").get<std::string>();
  process.local_nodes = json.at("local_nodes").get<std::vector<uint32_t>>();
  process.is_bound = json.at("is_bound").get<bool>();
  process.huge_code_bytes = json.at("huge_code_bytes").get<uint64_t>();
  for (size_t kind = 0; kind <= kAll; ++kind) process.kinds[kind] = KindOf(json.at(KindName(kind)));
  return process;
}

}  // namespace

std::string ShareText(const std::optional<double>& share) {
  return share ? Fixed(*share * 100, 2) : "-";
}

std::string PlacementText(const std::vector<ProcessMemory>& processes) {
  std::string text;
  for (const ProcessMemory& process : processes) {
    text += Heading(process) + TableOf(process) + "\n";
  }
  return text;
}

std::string TopologyText(const Topology& topology) {
  std::vector<std::string> heads = {"distance"};
  for (const Node& node : topology.nodes) heads.push_back("node " + std::to_string(node.id));
  heads.insert(heads.end(), {"CPUs", "memory MiB"});
  Table table(heads);
  for (const Node& node : topology.nodes) {
    std::vector<std::string> cells = {"node " + std::to_string(node.id)};
    for (const Node& to : topology.nodes) {
      cells.push_back(std::to_string(topology.Distance(node.id, to.id)));
    }
    cells.push_back(node.cpus.empty() ? "-" : FormatList(node.cpus));
    cells.push_back(node.HasMemory() ? Fixed(static_cast<double>(node.memory_bytes) * 0x1p-20, 0)
                                     : "-");
    table.AddRow(cells);
  }
  return table.ToString();
}

nlohmann::json PlacementJson(const std::vector<ProcessMemory>& processes,
                             const Topology& topology) {
  nlohmann::json nodes = nlohmann::json::array();
  for (const Node& node : topology.nodes) {
    nodes.push_back({{"id", node.id},
                     {"cpus", FormatList(node.cpus)},
                     {"memory_bytes", node.memory_bytes},
                     {"distances", node.distances}});
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ProcessMemory& process : processes) {
    nlohmann::json json = {{"pid", process.pid},
                           {"name", process.name},
                           {"local_nodes", process.local_nodes},
                           {"is_bound", process.is_bound},
                           {"huge_code_bytes", process.huge_code_bytes},
                           {"policies", JsonOf(process.bytes_by_policy)},
                           {"mapped_files", JsonOf(process.bytes_by_file)},
                           {"threads_by_cpus", process.threads_by_cpus}};
    for (size_t kind = 0; kind <= kAll; ++kind) json[KindName(kind)] = JsonOf(process.kinds[kind]);
    list.push_back(json);
  }
  return {{"nodes", nodes}, {"processes", list}};
}

std::optional<std::vector<ProcessMemory>> ParsePlacementJson(const std::string& text) {
  try {
    std::vector<ProcessMemory> processes;
    const nlohmann::json report = nlohmann::json::parse(text);
    for (const nlohmann::json& json : report.at("processes")) processes.push_back(SummaryOf(json));
    return processes;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string CompareText(const std::vector<ProcessMemory>& before,
                        const std::vector<ProcessMemory>& after) {
  Table table({"", "MiB before", "after", "local % before", "after", "distance before", "after"});
  const auto cells_of = [](const ProcessMemory* process, size_t kind) {
    if (process == nullptr || SumOf(process->kinds[kind].bytes) == 0) {
      return std::array<std::string, 3>{"-", "-", "-"};
    }
    const ProcessMemory::Kind& row = process->kinds[kind];
    return std::array<std::string, 3>{MebibyteText(SumOf(row.bytes)), ShareText(row.local_share),
                                      Fixed(row.distance, 2)};
  };
  for (size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const ProcessMemory* const old = i < before.size() ? &before[i] : nullptr;
    const ProcessMemory* const now = i < after.size() ? &after[i] : nullptr;
    const std::string process = (old == nullptr ? "-" : std::to_string(old->pid)) + ", " +
                                (now == nullptr ? "-" : std::to_string(now->pid));
    for (size_t kind = 0; kind <= kAll; ++kind) {
      const auto left = cells_of(old, kind);
      const auto right = cells_of(now, kind);
      table.AddRow({process + " " + KindName(kind), left[0], right[0], left[1], right[1], left[2],
                    right[2]});
    }
  }
  return table.ToString();
}

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
