#include "harness/numa/race_run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "engine_race/base/key.h"
#include "harness/data/value_maker.h"
#include "harness/measure/table.h"
#include "harness/numa/instance_process.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {
namespace {

namespace fs = std::filesystem;
using numa::FormatList;

constexpr auto kStopPatience = std::chrono::seconds(10);
// How late an interrupt may be seen that comes just before a poll.
constexpr int kPollMs = 500;
// How often the end of a process is looked for.
constexpr auto kEndStep = std::chrono::milliseconds(10);

std::string LogPath(const InstancePlan& plan) { return plan.dir + "/instance_race.log"; }
std::string JsonPath(const InstancePlan& plan) { return plan.dir + "/instance_race.json"; }

std::string ProgramPath(const InstancePlan& plan) { return plan.dir + "/instance_race"; }

// The last lines that an instance printed.
std::string TailOf(const std::string& path) {
  constexpr size_t kTailBytes = 600;
  const std::string text = LoadText(path).value_or("");
  return text.size() <= kTailBytes ? text : "..." + text.substr(text.size() - kTailBytes);
}

bool EndsBy(std::chrono::steady_clock::time_point end, InstanceProcess* process) {
  while (process->IsRunning()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kEndStep);
  }
  return true;
}

// The exit code of a process that has closed its pipe, in words; empty if it goes on running.
std::string CodeOf(InstanceProcess* process) {
  if (!EndsBy(std::chrono::steady_clock::now() + kStopPatience, process)) return "";
  return " with code " + std::to_string(process->Wait());
}

// Throws what the JSON library throws when a figure is missing.
void TakeFigures(const nlohmann::json& engine, InstancePhase* phase) {
  engine.get_to<PhaseFigures>(*phase);
  phase->bytes = phase->record_count * kValueSize;
  if (phase->name == "range") {
    phase->bytes *= phase->pass_seconds.size();
  } else {
    phase->pass_seconds.clear();
  }
}

}  // namespace

const char* TextModeName(TextMode mode) {
  constexpr const char* kNames[] = {"copies", "shared", "remap"};
  return kNames[static_cast<size_t>(mode)];
}

RaceRun::RaceRun(RaceSettings settings, std::vector<InstancePlan> plans, numa::Topology topology)
    : settings_([&] {
        if (settings.launcher.empty()) settings.launcher = SelfPath();
        return std::move(settings);
      }()),
      topology_(std::move(topology)),
      instances_(plans.size()) {
  for (size_t i = 0; i < plans.size(); ++i) {
    results_.push_back({.plan = plans[i], .phases = {}});
    instances_[i].plan = std::move(plans[i]);
  }
}

RaceRun::~RaceRun() {
  StopAll();
  std::error_code ignored;
  for (const Instance& instance : instances_) {
    if (instance.made_program) fs::remove(instance.program, ignored);
  }
}

std::vector<std::string> RaceRun::Bound(const InstancePlan& plan,
                                        const std::vector<std::string>& command) const {
  std::vector<std::string> args;
  if (is_bound_) {
    args = {"numactl", "--cpunodebind=" + FormatList(plan.cpu_nodes),
            "--membind=" + FormatList(plan.memory_nodes)};
  }
  args.insert(args.end(), command.begin(), command.end());
  return args;
}

Status RaceRun::CheckBinding() {
  for (Instance& instance : instances_) {
    const ChildResult tried = RunChild(Bound(instance.plan, {settings_.launcher, "bound"}));
    // An interrupt ends the child too, and says nothing about the binding.
    if (Interrupted()) return InterruptedStatus();
    if (tried.started && tried.exit_code == 0) continue;
    const std::string why = tried.started ? "numactl cannot bind to them" : tried.error;
    if (instances_.size() > 1) {
      return Status::NotSupported(instance.plan.Name() + " cannot be bound: " + why);
    }
    is_bound_ = false;
    note_ = "the instance is not bound to nodes: " + why;
  }
  return Status::Ok();
}

Status RaceRun::CopyText() {
  std::vector<uint32_t> every_node;
  for (const numa::Node& node : topology_.nodes) every_node.push_back(node.id);
  for (Instance& instance : instances_) {
    const bool has_copy = instance.plan.number == 0 || settings_.text == TextMode::kCopies;
    instance.program = ProgramPath((has_copy ? instance : instances_.front()).plan);
    if (!has_copy) continue;
    // The pages of an unbound copier may lie anywhere.
    const std::vector<uint32_t>& nodes = is_bound_ ? instance.plan.memory_nodes : every_node;
    const ChildResult copied =
        RunChild(Bound(instance.plan, {settings_.launcher, "copy", settings_.program,
                                       instance.program, FormatList(nodes)}));
    if (Interrupted()) return InterruptedStatus();
    instance.made_program = copied.started && copied.exit_code == 0;
    if (instance.made_program) continue;
    const std::string why = copied.output.substr(0, copied.output.find_last_not_of('\n') + 1);
    return Status::IOError(instance.plan.Name() + ": the program could not be copied" +
                           (why.empty() ? "" : ": " + why));
  }
  return Status::Ok();
}

Status RaceRun::Prepare() {
  if (settings_.text == TextMode::kCopies) {
    ENGINE_RACE_RETURN_IF_ERROR(CheckStaticProgram(settings_.program));
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckBinding());
  for (Instance& instance : instances_) {
    const InstancePlan& plan = instance.plan;
    ENGINE_RACE_RETURN_IF_ERROR(dirs_.Take(plan.dir).Prefixed(plan.Name() + ": "));
  }
  for (Instance& instance : instances_) {
    std::error_code error;
    fs::remove(JsonPath(instance.plan), error);
  }
  return CopyText();
}

Status RaceRun::StartInstance(Instance* instance) {
  std::string phases;
  for (const std::string& phase : settings_.phases) phases += (phases.empty() ? "" : ",") + phase;
  std::vector<std::string> command = {instance->program,
                                      "--no-fio",
                                      "--dir",
                                      instance->plan.dir + "/store",
                                      "--key-range",
                                      ToString(instance->plan.keys),
                                      "--phases",
                                      phases,
                                      "--json",
                                      JsonPath(instance->plan),
                                      "--gate",
                                      std::to_string(InstanceProcess::kGateInFd) + "," +
                                          std::to_string(InstanceProcess::kGateOutFd)};
  if (settings_.text == TextMode::kRemap) command.push_back("--own-text");
  command.insert(command.end(), settings_.race_flags.begin(), settings_.race_flags.end());
  const std::string log_path = LogPath(instance->plan);
  const Status started = instance->process.Start(Bound(instance->plan, command), log_path);
  if (started.ok()) return started;
  return Status::IOError(instance->plan.Name() + " with the log " + log_path + ": " +
                         started.message());
}

Status RaceRun::Failed(const Instance& instance, const std::string& what) {
  if (Interrupted()) return InterruptedStatus();
  return Status::IOError(instance.plan.Name() + " " + what + ":\n" +
                         TailOf(LogPath(instance.plan)));
}

Status RaceRun::AwaitAll(std::span<Instance> instances, const std::string& stage,
                         std::vector<std::string>* lines) {
  lines->assign(instances.size(), {});
  std::vector<bool> is_here(instances.size(), false);
  for (size_t missing = instances.size(); missing > 0;) {
    std::vector<pollfd> polled;
    polled.reserve(instances.size());
    for (const Instance& instance : instances) {
      polled.push_back({.fd = instance.process.gate_fd(), .events = POLLIN, .revents = 0});
    }
    if (::poll(polled.data(), polled.size(), kPollMs) < 0 && errno != EINTR) {
      return Status::FromErrno("poll", errno);
    }
    if (Interrupted()) return InterruptedStatus();
    for (size_t i = 0; i < instances.size(); ++i) {
      // Instances that wait are polled too: one that ends while it waits has failed.
      InstanceProcess& process = instances[i].process;
      if (!process.ReadGate()) {
        return Failed(instances[i], "ended" + CodeOf(&process) + " before " + stage);
      }
      const std::optional<std::string> line = is_here[i] ? std::nullopt : process.TakeLine();
      if (!line) continue;
      if (!line->starts_with(stage)) return Failed(instances[i], "said \"" + *line + "\"");
      (*lines)[i] = line->substr(stage.size());
      is_here[i] = true;
      --missing;
    }
  }
  return Status::Ok();
}

Status RaceRun::AnswerAll() {
  for (Instance& instance : instances_) {
    if (!instance.process.Answer()) return Failed(instance, "ended");
  }
  return Status::Ok();
}

void RaceRun::ReadPlacements(const std::string& phase, const std::vector<std::string>& pids) {
  for (size_t i = 0; i < instances_.size(); ++i) {
    InstancePhase& result = results_[i].phases.emplace_back();
    result.name = phase;
    if (!settings_.reports_placement) continue;
    ProcessMemory memory;
    const Status read =
        ReadProcessMemory(numa::kProcRoot, std::strtoll(pids[i].c_str(), nullptr, 10), topology_,
                          instances_[i].plan.memory_nodes, &memory);
    if (read.ok()) {
      result.placement = std::move(memory);
    } else if (note_.empty()) {
      note_ = "where memory lies is not known: " + read.ToString();
    }
  }
}

Status RaceRun::RunPhases() {
  std::vector<std::string> lines;
  for (const std::string& phase : settings_.phases) {
    ENGINE_RACE_RETURN_IF_ERROR(AwaitAll(instances_, "start " + phase, &lines));
    ENGINE_RACE_RETURN_IF_ERROR(AnswerAll());
    ENGINE_RACE_RETURN_IF_ERROR(AwaitAll(instances_, "done " + phase + " ", &lines));
    ReadPlacements(phase, lines);
    ENGINE_RACE_RETURN_IF_ERROR(AnswerAll());
  }
  return Status::Ok();
}

Status RaceRun::CollectResults() {
  for (size_t i = 0; i < instances_.size(); ++i) {
    Instance& instance = instances_[i];
    while (instance.process.IsRunning()) {
      if (Interrupted()) return InterruptedStatus();
      std::this_thread::sleep_for(kEndStep);
    }
    if (instance.process.Wait() != 0) return Failed(instance, "failed");
    const nlohmann::json report = LoadJson(JsonPath(instance.plan));
    if (!report.is_object()) return Failed(instance, "left no report");
    try {
      for (size_t p = 0; p < results_[i].phases.size(); ++p) {
        TakeFigures(report.at("phases").at(p).at("engine"), &results_[i].phases[p]);
      }
    } catch (const nlohmann::json::exception& error) {
      return Failed(instance, "left a report without its figures, " + std::string(error.what()));
    }
  }
  return Status::Ok();
}

Status RaceRun::Run() {
  ::signal(SIGPIPE, SIG_IGN);
  // The first instance starts alone: pages of the program that are not cached enter the cache under
  // its policy.
  std::vector<std::string> lines;
  const std::span<Instance> all = instances_;
  const std::span<Instance> others = all.subspan(1);
  ENGINE_RACE_RETURN_IF_ERROR(StartInstance(&all.front()));
  ENGINE_RACE_RETURN_IF_ERROR(AwaitAll(all.first(1), "ready", &lines));
  for (Instance& instance : others) ENGINE_RACE_RETURN_IF_ERROR(StartInstance(&instance));
  ENGINE_RACE_RETURN_IF_ERROR(AwaitAll(others, "ready", &lines));
  ENGINE_RACE_RETURN_IF_ERROR(AnswerAll());
  ENGINE_RACE_RETURN_IF_ERROR(RunPhases());
  return CollectResults();
}

void RaceRun::StopAll() {
  for (Instance& instance : instances_) instance.process.Stop();
  const auto end = std::chrono::steady_clock::now() + kStopPatience;
  for (Instance& instance : instances_) {
    if (!EndsBy(end, &instance.process)) instance.process.Kill();
  }
}

}  // namespace engine_race::harness
