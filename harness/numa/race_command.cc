#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine_race/base/key.h"
#include "engine_race/numa/topology.h"
#include "harness/data/key_source.h"
#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/numa/instance_process.h"
#include "harness/numa/process_memory.h"
#include "harness/numa/race_run.h"
#include "harness/numa/report.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr char kRaceProgram[] = "numa race";

namespace fs = std::filesystem;
using numa::Allowed;
using numa::Topology;

constexpr uint32_t kThreadCount = 64;
constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;

// Beside this program, whose name has the prefix of all installed ones. Linked statically where it
// was built so, and where it must be.
std::string DefaultProgram(TextMode text) {
  const fs::path self = SelfPath();
  const std::string name = self.filename().string();
  const std::string prefix = name.substr(0, std::min(name.find("numa"), name.size()));
  const fs::path static_program = self.parent_path() / (prefix + "race_static");
  std::error_code ignored;
  return fs::exists(static_program, ignored) || text == TextMode::kCopies
             ? static_program.string()
             : (self.parent_path() / (prefix + "race")).string();
}

// Empty, or what to do about a race program that is missing.
std::string WhyNoProgram(const NumaRaceFlags& flags, const RaceSettings& settings) {
  std::error_code ignored;
  if (fs::is_regular_file(settings.program, ignored)) return {};
  const std::string missing = "there is no " + settings.program;
  if (!flags.program.empty()) return missing;
  if (settings.text != TextMode::kCopies) return missing + ": --binary names the race program";
  return missing + ", a race program without shared libraries, of which instances could have " +
         "copies: --text remap does without copies, and --binary names another program";
}

TextMode TextModeOf(const NumaRaceFlags& flags) {
  if (flags.shares_program || flags.text == "shared") return TextMode::kShared;
  return flags.text == "remap" ? TextMode::kRemap : TextMode::kCopies;
}

bool HasPhase(const NumaRaceFlags& flags, const char* phase) {
  return std::find(flags.phases.begin(), flags.phases.end(), phase) != flags.phases.end();
}

// In the order in which bin/race runs them, each once.
std::vector<std::string> PhasesInOrder(const NumaRaceFlags& flags) {
  std::vector<std::string> phases;
  for (const char* phase : {"write", "read", "mixed", "range"}) {
    if (HasPhase(flags, phase)) phases.push_back(phase);
  }
  return phases;
}

RaceSettings SettingsOf(const NumaRaceFlags& flags) {
  RaceSettings settings;
  settings.text = TextModeOf(flags);
  settings.program = flags.program.empty() ? DefaultProgram(settings.text) : flags.program;
  settings.phases = PhasesInOrder(flags);
  settings.reports_placement = !flags.without_report;
  settings.race_flags = {"--threads",      std::to_string(flags.thread_count),
                         "--num",          std::to_string(flags.records_per_thread),
                         "--memory-limit", std::to_string(flags.memory_limit_bytes),
                         "--keys",         flags.keys,
                         "--seed",         std::to_string(flags.seed),
                         "--numa",         flags.numa};
  return settings;
}

// Empty, or why an instance cannot have its directory or its keys.
std::string WhyNoInstance(const InstancePlan& plan, const NumaRaceFlags& flags) {
  const std::string there = NearestDir(plan.dir);
  std::error_code ignored;
  if (!fs::is_directory(there, ignored)) {
    return plan.Name() + ": " + there + " is no directory";
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    return plan.Name() + ": cannot write in " + there + ": " + std::strerror(errno);
  }
  const uint64_t record_count = flags.thread_count * flags.records_per_thread;
  if (record_count > MaxKeyCount(*ParseKeyShape(flags.keys), plan.keys)) {
    return plan.Name() + ": keys " + ToString(plan.keys) + " are fewer than its " +
           std::to_string(record_count) + " records";
  }
  return {};
}

bool CanBeWritten(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return false;
  if (fs::exists(path, ignored)) return ::access(path.c_str(), W_OK) == 0;
  const fs::path parent = fs::path(path).parent_path();
  return ::access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) == 0;
}

// Empty, or why the race cannot begin. Makes nothing and removes nothing.
std::string WhyNot(const std::vector<InstancePlan>& plans, const NumaRaceFlags& flags,
                   const RaceSettings& settings, const Topology& topology) {
  std::string why = WhyNoProgram(flags, settings);
  if (!why.empty()) return why;
  if (flags.memory_limit_bytes < kMinMemoryBudgetBytes) {
    return "the memory budget of an instance is below " + std::to_string(kMinMemoryBudgetBytes) +
           " bytes: see --memory-limit";
  }
  NumaOptions numa;
  why = ParseNumaFlag(flags.numa, topology, &numa);
  if (!why.empty()) return why;
  for (const std::string& path : {flags.table_path, flags.json_path}) {
    if (!path.empty() && !CanBeWritten(path)) return "cannot write " + path;
  }
  for (const InstancePlan& plan : plans) {
    why = WhyNoInstance(plan, flags);
    if (!why.empty()) return why;
  }
  const uint64_t record_count = flags.thread_count * flags.records_per_thread;
  const bool has_write = HasPhase(flags, "write");
  std::vector<SpaceNeed> needs;
  needs.reserve(plans.size());
  for (const InstancePlan& plan : plans) {
    needs.push_back({plan.dir, RaceBytes(record_count, has_write, HasPhase(flags, "mixed")),
                     has_write ? AllocatedBytes(plan.dir + "/store") : 0});
  }
  return WhyNoRoom(needs);
}

Status ReadMachine(Topology* topology, Allowed* allowed) {
  ENGINE_RACE_RETURN_IF_ERROR(numa::ReadTopology(numa::kSysfsRoot, topology));
  return numa::ReadAllowed(std::string(numa::kProcRoot) + "/thread-self", *topology, allowed);
}

void PrintPlan(const std::vector<InstancePlan>& plans, const RaceSettings& settings,
               const Topology& topology) {
  std::printf("%s\ntext: %s of %s\n", TopologyText(topology).c_str(), TextModeName(settings.text),
              settings.program.c_str());
  for (const InstancePlan& plan : plans) {
    std::printf("%s: memory of nodes %s, keys %s, %s\n", plan.Name().c_str(),
                numa::FormatList(plan.memory_nodes).c_str(), ToString(plan.keys).c_str(),
                plan.dir.c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

// The whole race, everything being chosen.
int RunPlanned(const NumaRaceFlags& flags, const RaceSettings& settings,
               const std::vector<InstancePlan>& plans, const Topology& topology) {
  RaceRun run(settings, plans, topology);
  const Status prepared = run.Prepare();
  if (Interrupted()) return kExitInterrupted;
  if (!prepared.ok()) return Refuse(kRaceProgram, prepared.message());
  const Status ran = run.Run();
  if (Interrupted()) return kExitInterrupted;
  if (!ran.ok()) {
    Refuse(kRaceProgram, ran.message());
    return kExitFailure;
  }
  const std::string text = RaceText(run.results());
  std::printf("%s", text.c_str());
  if (!run.note().empty()) std::printf("%s\n", run.note().c_str());
  nlohmann::json json = RaceJson(run.results(), settings.text, topology, run.note());
  json["machine"] = DescribeMachine(plans.front().dir);
  const bool has_table = SaveText(text, flags.table_path);
  const bool has_json = SaveJson(json, flags.json_path);
  if (!has_table) return Refuse(kRaceProgram, "cannot write " + flags.table_path);
  if (!has_json) return Refuse(kRaceProgram, "cannot write " + flags.json_path);
  return kExitDone;
}

}  // namespace

CLI::App* AddRaceCommand(CLI::App* app, NumaRaceFlags* flags) {
  CLI::App* const race = app->add_subcommand(
      "race", "one instance of race per node, with text and memory of that node, all together");
  race->add_option("--groups", flags->request.group_count,
                   "as many instances, on groups of near nodes; by default one per node")
      ->check(AboveZero());
  race->add_option("--nodes", flags->request.groups,
                   "the nodes of each instance by hand: --nodes 0-1 2-3");
  race->add_option("--key-ranges", flags->request.key_ranges,
                   "FIRST-LAST of each instance by hand; together all keys")
      ->delimiter(',');
  race->add_option("--dir", flags->dir,
                   "directory of all; by default a fresh one here, removed at the end");
  race->add_option("--dirs", flags->request.dirs, "a directory for each instance; they exist")
      ->delimiter(',');
  race->add_option("--binary", flags->program,
                   "the race program; by default race_static beside this one");
  race->add_option("--text", flags->text, "copies, shared or remap")
      ->check(OneOf("way", {"copies", "shared", "remap"}));
  race->add_flag("--shared-binary", flags->shares_program, "the same as --text shared");
  race->add_flag("--no-report", flags->without_report, "do not look where memory lies");
  race->add_option("--threads", flags->thread_count,
                   "threads of each instance; by default 64 for all together")
      ->check(CLI::Range(1u, 4096u));
  race->add_option("--num", flags->records_per_thread, "records per thread")
      ->check(CLI::Range(uint64_t{1}, kMaxRecordsPerThread));
  race->add_option("--memory-limit", flags->memory_limit_bytes,
                   "memory budget of each instance; by default 2G for all together")
      ->transform(CLI::AsSizeValue(false));
  race->add_option("--keys", flags->keys, "uniform, sequential, zipfian or onebucket")
      ->check(OneOf("shape", KeyShapeNames()));
  race->add_option("--phases", flags->phases, "which of write,read,mixed,range")
      ->delimiter(',')
      ->check(OneOf("phase", {"write", "read", "mixed", "range"}));
  race->add_option("--numa", flags->numa, "of each store, as race has it");
  race->add_option("--seed", flags->seed);
  race->add_option("--table", flags->table_path, "also write the tables into this file");
  race->add_option("--json", flags->json_path, "also write all figures into this file");
  return race;
}

int RunNumaRace(NumaRaceFlags flags) {
  Topology topology;
  Allowed allowed;
  const Status read = ReadMachine(&topology, &allowed);
  if (!read.ok()) return Refuse(kRaceProgram, read.message());
  WorkDir fresh;
  if (flags.dir.empty() && flags.request.dirs.empty()) {
    const Status made = fresh.Prepare("");
    if (!made.ok()) return Refuse(kRaceProgram, made.message());
    flags.dir = fresh.path();
  }
  std::error_code failed;
  flags.request.parent_dir = fs::absolute(flags.dir.empty() ? "." : flags.dir, failed).string();
  if (failed) return Refuse(kRaceProgram, flags.dir + ": " + failed.message());
  std::vector<InstancePlan> plans;
  const Status planned = PlanRace(flags.request, topology, allowed, &plans);
  if (!planned.ok()) return Refuse(kRaceProgram, planned.message());
  const auto count = static_cast<uint32_t>(plans.size());
  if (flags.thread_count == 0) flags.thread_count = std::max(1u, kThreadCount / count);
  if (flags.memory_limit_bytes == 0) flags.memory_limit_bytes = kMemoryBytes / count;
  const RaceSettings settings = SettingsOf(flags);
  const std::string why_not = WhyNot(plans, flags, settings, topology);
  if (!why_not.empty()) return Refuse(kRaceProgram, why_not);
  CatchInterrupts();
  PrintPlan(plans, settings, topology);
  const int exit_code = RunPlanned(flags, settings, plans, topology);
  if (!fresh.path().empty()) {
    for (const InstancePlan& plan : plans) fs::remove_all(plan.dir, failed);
  }
  return exit_code;
}

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
    auto loaded = ParsePlacementJson(LoadText(flags.before_path).value_or(""));
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
