#include "harness/numa/commands.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "engine_race/numa/topology.h"
#include "harness/measure/result_file.h"
#include "harness/numa/process_memory.h"
#include "harness/numa/report.h"
#include "harness/numa/text_copy.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"

namespace engine_race::harness {
namespace {

constexpr char kReportProgram[] = "numa report";

using numa::Topology;

// Empty, or why the list of nodes cannot be used.
std::string ParseNodes(const std::string& list, const Topology& topology,
                       std::vector<uint32_t>* nodes) {
  if (!numa::ParseList(list, numa::kMaxNodeCount, nodes)) {
    return "--nodes " + list + " is no list such as 0,2-3";
  }
  for (const uint32_t node : *nodes) {
    if (topology.Find(node) == nullptr) return "there is no node " + std::to_string(node);
  }
  return {};
}

std::optional<std::vector<ProcessMemory>> LoadReport(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return ParsePlacementJson({std::istreambuf_iterator<char>(file), {}});
}

// On standard output, where `numa race` reads the reason.
int RefuseCopy(const std::string& why) {
  std::printf("numa copy: %s\n", why.c_str());
  return kExitRefused;
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
  const Status read = numa::ReadTopology(numa::kSysfsRoot, &topology);
  if (!read.ok()) return Refuse(kReportProgram, read.ToString());
  std::vector<uint32_t> nodes;
  const std::string bad_nodes = ParseNodes(flags.nodes, topology, &nodes);
  if (!bad_nodes.empty()) return Refuse(kReportProgram, bad_nodes);
  std::vector<ProcessMemory> before;
  if (!flags.before_path.empty()) {
    auto loaded = LoadReport(flags.before_path);
    if (!loaded)
      return Refuse(kReportProgram, flags.before_path + " is no report that --json wrote");
    before = std::move(*loaded);
  }
  std::vector<ProcessMemory> processes;
  for (const int64_t pid : flags.pids) {
    const Status status =
        ReadProcessMemory(numa::kProcRoot, pid, topology, nodes, &processes.emplace_back());
    if (!status.ok()) return Refuse(kReportProgram, status.ToString());
  }
  std::printf("%s\n%s", TopologyText(topology).c_str(), PlacementText(processes).c_str());
  if (!flags.before_path.empty()) std::printf("%s", CompareText(before, processes).c_str());
  if (!SaveJson(PlacementJson(processes, topology), flags.json_path)) {
    return Refuse(kReportProgram, "cannot write " + flags.json_path);
  }
  return kExitDone;
}

CLI::App* AddCopyCommand(CLI::App* app, CopyFlags* flags) {
  CLI::App* const copy = app->add_subcommand(
      "copy", "a copy of a program with its pages on NUMA nodes; run it bound to them by numactl");
  copy->add_option("source", flags->source, "the program")->required();
  copy->add_option("target", flags->target, "its copy, which is replaced")->required();
  copy->add_option("nodes", flags->nodes, "where its pages must lie, such as 0-1")->required();
  return copy;
}

int RunCopy(const CopyFlags& flags) {
  std::vector<uint32_t> nodes;
  if (!numa::ParseList(flags.nodes, numa::kMaxNodeCount, &nodes)) {
    return RefuseCopy(flags.nodes + " is no list of nodes");
  }
  Status status = CopyProgram(flags.source, flags.target);
  if (status.ok()) status = PlaceInCache(flags.target, nodes);
  // Without NUMA in the kernel there is no other place where the pages could lie.
  if (status.ok() || status.code() == Code::kNotSupported) return kExitDone;
  return RefuseCopy(status.message());
}

}  // namespace engine_race::harness
