// The commands of bin/numa and their reports: where the memory of processes lies, as text and as
// JSON, and two such reports side by side.
#ifndef HARNESS_NUMA_REPORT_H_
#define HARNESS_NUMA_REPORT_H_

#include <CLI/CLI.hpp>
#include <cstdint>
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

// `bin/numa race`: one instance of the race per node or per group of near nodes, all together.

struct NumaRaceFlags {
  RaceRequest request;
  std::string dir;
  std::string program;
  std::string text = "copies";
  bool shares_program = false;
  bool without_report = false;
  std::vector<std::string> phases = {"write", "read", "range"};
  // 0: 64 divided by the number of instances.
  uint32_t thread_count = 0;
  uint64_t records_per_thread = 20000;
  // 0: 2 GiB divided by the number of instances.
  uint64_t memory_limit_bytes = 0;
  std::string keys = "uniform";
  uint64_t seed = 1;
  std::string numa = "none";
  std::string table_path;
  std::string json_path;
};

CLI::App* AddRaceCommand(CLI::App* app, NumaRaceFlags* flags);
// Returns the exit code: kExitFailure when an instance failed.
int RunNumaRace(NumaRaceFlags flags);

// `bin/numa report`: where the memory of running processes lies, and how local that is. `bin/numa
// copy`: a copy of a program with its pages on NUMA nodes. `bin/numa race` runs such copies, bound
// to the nodes of an instance.
struct ReportFlags {
  std::vector<int64_t> pids;
  std::string nodes;
  std::string json_path;
  std::string before_path;
};

struct CopyFlags {
  std::string source;
  std::string target;
  std::string nodes;
};

// Those that run return the exit code.
CLI::App* AddReportCommand(CLI::App* app, ReportFlags* flags);
int RunReport(const ReportFlags& flags);
CLI::App* AddCopyCommand(CLI::App* app, CopyFlags* flags);
int RunCopy(const CopyFlags& flags);

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_REPORT_H_
