#include "harness/numa/report_command.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine_race/numa/topology.h"
#include "harness/measure/result_file.h"
#include "harness/numa/process_memory.h"
#include "harness/numa/report.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

namespace harness {
namespace {

using engine_race::Status;
using engine_race::numa::Topology;

int RefuseReport(const std::string& why) {
  std::fprintf(stderr, "numa report: %s\n", why.c_str());
  return kExitRefused;
}

// Empty, or why the list of nodes cannot be used.
std::string ParseNodes(const std::string& list, const Topology& topology,
                       std::vector<uint32_t>* nodes) {
  if (!engine_race::numa::ParseList(list, engine_race::numa::kMaxNodeCount, nodes)) {
    return "--nodes " + list + " is no list such as 0,2-3";
  }
  for (const uint32_t node : *nodes) {
    if (topology.Find(node) == nullptr) return "there is no node " + std::to_string(node);
  }
  return {};
}

std::optional<std::vector<PlacementSummary>> LoadReport(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return ParsePlacementJson({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace

CLI::App* AddReportCommand(CLI::App* app, ReportFlags* flags) {
  CLI::App* const report = app->add_subcommand(
      "report", "where the code, heap, files and stacks of processes lie, and how local that is");
  report->add_option("pid", flags->pids, "processes")->required()->check(AboveZero());
  report->add_option("--nodes", flags->nodes,
                     "the nodes that count as local, such as 0,2-3; by default those of its CPUs");
  report->add_option("--json", flags->json_path, "also write the figures into this file");
  report->add_option("--compare", flags->before_path,
                     "put the figures of this file, written by --json, beside those of now");
  return report;
}

int RunReport(const ReportFlags& flags) {
  Topology topology;
  const Status read = engine_race::numa::ReadTopology(engine_race::numa::kSysfsRoot, &topology);
  if (!read.ok()) return RefuseReport(read.ToString());
  std::vector<uint32_t> nodes;
  const std::string bad_nodes = ParseNodes(flags.nodes, topology, &nodes);
  if (!bad_nodes.empty()) return RefuseReport(bad_nodes);
  std::vector<PlacementSummary> before;
  if (!flags.before_path.empty()) {
    auto loaded = LoadReport(flags.before_path);
    if (!loaded) return RefuseReport(flags.before_path + " is no report that --json wrote");
    before = std::move(*loaded);
  }
  std::vector<PlacementSummary> processes;
  for (const int64_t pid : flags.pids) {
    ProcessMemory memory;
    const Status status =
        ReadProcessMemory(engine_race::numa::kProcRoot, pid, topology, nodes, &memory);
    if (!status.ok()) return RefuseReport(status.ToString());
    processes.push_back(Summarize(memory, topology));
  }
  std::printf("%s\n%s", TopologyText(topology).c_str(), PlacementText(processes).c_str());
  if (!flags.before_path.empty()) std::printf("%s", CompareText(before, processes).c_str());
  if (!SaveJson(PlacementJson(processes, topology), flags.json_path)) {
    return RefuseReport("cannot write " + flags.json_path);
  }
  return kExitDone;
}

}  // namespace harness
