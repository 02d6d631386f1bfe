// `bin/numa race`: one instance of the race per node or per group of near nodes, all together.
//
// Called once, from main.
#ifndef HARNESS_NUMA_RACE_COMMAND_H_
#define HARNESS_NUMA_RACE_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/numa/race_plan.h"

namespace engine_race::harness {

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

}  // namespace engine_race::harness

#endif  // HARNESS_NUMA_RACE_COMMAND_H_
