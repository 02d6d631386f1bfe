// Runs one phase of the engine for a profiler. scripts/flame draws the profile.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/claims/bench_end.h"
#include "harness/claims/profile_phases.h"
#include "harness/load/store_basics.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/system/profiler_switch.h"
#include "harness/system/scratch_dir.h"

namespace harness {
namespace {

constexpr char kProgram[] = "profile";

struct ProfileFlags {
  ProfileConfig config;
  std::string phase;
  std::string parent = "/dev/shm";
  std::string control;
  std::string answer;
  bool is_smoke = false;
};

std::string PhaseList() {
  std::string text = "one of these, or all of them, one after another:";
  for (const ProfilePhase& phase : AllProfilePhases()) {
    text += std::string("\n  ") + phase.name + ": " + phase.about;
  }
  return text;
}

std::vector<std::string> PhaseNames() {
  std::vector<std::string> names = {"all"};
  for (const ProfilePhase& phase : AllProfilePhases()) names.push_back(phase.name);
  return names;
}

int Profile(ProfileFlags flags) {
  ProfileConfig& config = flags.config;
  if (flags.is_smoke) {
    config.key_count = 50000;
    config.record_count = 2000;
    config.thread_count = 4;
    config.seconds = 0.01;
  }
  // Space for two stores. A store of keys only is no larger than one of records.
  const ScratchDir dir(flags.parent, 2 * StoreBytes(config.record_count));
  if (dir.path().empty()) return RefuseBench(kProgram, "no room in " + flags.parent);
  config.dir = dir.path();
  const ProfilerSwitch profiler(flags.control, flags.answer);
  bool found = false;
  for (const ProfilePhase& phase : AllProfilePhases()) {
    if (flags.phase != phase.name && flags.phase != "all") continue;
    found = true;
    const std::string failure = phase.run(config, profiler);
    if (failure.empty()) continue;
    std::fprintf(stderr, "%s: %s: %s\n", kProgram, phase.name, failure.c_str());
    return kExitFailure;
  }
  return found ? kExitDone : RefuseBench(kProgram, UnknownName("phase", flags.phase, PhaseNames()));
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  harness::ProfileFlags flags;
  CLI::App app("Runs a phase of the engine, by default in memory, for a profiler to look at.");
  app.add_option("phase", flags.phase, harness::PhaseList())->required();
  app.add_option("--dir", flags.parent, "where its store is made")->capture_default_str();
  app.add_option("--keys", flags.config.key_count, "of seek and setup")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--num", flags.config.record_count, "records of the others")
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--threads", flags.config.thread_count)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seconds", flags.config.seconds)
      ->check(harness::AboveZero())
      ->capture_default_str();
  app.add_option("--seed", flags.config.seed)->capture_default_str();
  app.add_option("--control", flags.control, "of perf record --control fifo:CONTROL,ANSWER");
  app.add_option("--answer", flags.answer)->needs("--control");
  app.add_flag("--smoke", flags.is_smoke, "tiny, to see that it works");
  if (const auto code = harness::ParseCommandLine("profile", argc, argv, &app)) return *code;
  return harness::Profile(flags);
}
