// `bin/numa race`: one instance of the race per node or per group of near nodes, all together.
#ifndef HARNESS_NUMA_RACE_COMMAND_H_
#define HARNESS_NUMA_RACE_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/numa/race_run.h"

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

#endif  // HARNESS_NUMA_RACE_COMMAND_H_
