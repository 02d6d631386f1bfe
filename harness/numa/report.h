// The report of bin/numa: where the memory of processes lies, as text and as JSON, and two such
// reports side by side.
#ifndef HARNESS_NUMA_REPORT_H_
#define HARNESS_NUMA_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/numa/process_memory.h"
#include "harness/numa/race_run.h"

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

// The report of a race over NUMA nodes: rates, CPU time and placement of each instance, and their
// sums.

// All instances together in one phase.
struct PhaseSum {
  uint64_t bytes = 0;
  // Of the slowest instance; all of them begin at once.
  double seconds = 0;
  double cpu_seconds = 0;

  double BytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
};
PhaseSum SumOfPhase(const std::vector<InstanceResult>& results, size_t phase);

// CPU time in CPUs: 14.0 is 1400 %.
double BusyCpus(const InstancePhase& phase);

// The least share that any phase of any instance had on its own nodes. Nullopt when a phase's
// placement is not known, and when no phase has such memory.
std::optional<double> LeastLocalShare(const std::vector<InstanceResult>& results, MemoryKind kind);

// A table a phase: the instances one by one, then all of them.
std::string RaceText(const std::vector<InstanceResult>& results);
nlohmann::json RaceJson(const std::vector<InstanceResult>& results, TextMode text,
                        const numa::Topology& topology, const std::string& note);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_REPORT_H_
