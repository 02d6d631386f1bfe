// The report of bin/numa: where the memory of processes lies, as text and as JSON, and two such
// reports side by side.
//
// Pure functions.
#ifndef HARNESS_NUMA_REPORT_H_
#define HARNESS_NUMA_REPORT_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/numa/process_memory.h"

namespace harness {

// One process. Summaries of different machines can be compared.
struct PlacementSummary {
  int64_t pid = 0;
  std::string name;
  std::vector<uint32_t> local_nodes;
  bool is_bound = false;
  uint64_t huge_code_bytes = 0;
  struct Kind {
    NodeBytes bytes;
    // None of nothing.
    std::optional<double> local_share;
    double distance = 0;
  };
  // In the order of kMemoryKinds, then all of them together.
  std::array<Kind, kMemoryKinds.size() + 1> kinds;
  // As in Placement. In the JSON alone, and left empty by what reads one.
  std::map<std::string, NodeBytes> bytes_by_policy;
  std::map<std::string, NodeBytes> bytes_by_file;
  std::map<std::string, uint32_t> threads_by_cpus;

  const Kind& Of(MemoryKind kind) const { return kinds[static_cast<size_t>(kind)]; }
  const Kind& All() const { return kinds.back(); }
};

PlacementSummary Summarize(const ProcessMemory& memory,
                           const engine_race::numa::Topology& topology);

// In percent; "-" for none.
std::string ShareText(const std::optional<double>& share);
// A table a process: kinds by node, the local share, the mean distance.
std::string PlacementText(const std::vector<PlacementSummary>& processes);
// The machine's nodes and the distances between them.
std::string TopologyText(const engine_race::numa::Topology& topology);

nlohmann::json PlacementJson(const std::vector<PlacementSummary>& processes,
                             const engine_race::numa::Topology& topology);
// The processes of such a JSON; nullopt for any other text.
std::optional<std::vector<PlacementSummary>> ParsePlacementJson(const std::string& text);

// Kinds of memory side by side, the first process of one beside the first of the other, and so on.
std::string CompareText(const std::vector<PlacementSummary>& before,
                        const std::vector<PlacementSummary>& after);

}  // namespace harness

#endif  // HARNESS_NUMA_REPORT_H_
