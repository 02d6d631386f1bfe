// The report of bin/numa: where the memory of processes lies, as text and as JSON, and two such
// reports side by side.
#ifndef HARNESS_NUMA_REPORT_H_
#define HARNESS_NUMA_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/numa/process_memory.h"

namespace engine_race::harness {

// In percent; "-" for none.
std::string ShareText(const std::optional<double>& share);
// A table a process: kinds by node, the local share, the mean distance.
std::string PlacementText(const std::vector<ProcessMemory>& processes);
// The machine's nodes and the distances between them.
std::string TopologyText(const numa::Topology& topology);

nlohmann::json PlacementJson(const std::vector<ProcessMemory>& processes,
                             const numa::Topology& topology);
// The processes of such a JSON; nullopt for any other text.
std::optional<std::vector<ProcessMemory>> ParsePlacementJson(const std::string& text);

// Kinds of memory side by side, the first process of one beside the first of the other, and so on.
std::string CompareText(const std::vector<ProcessMemory>& before,
                        const std::vector<ProcessMemory>& after);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_REPORT_H_
