// `bin/numa report`: where the memory of running processes lies, and how local that is. `bin/numa
// copy`: a copy of a program with its pages on NUMA nodes. `bin/numa race` runs such copies, bound
// to the nodes of an instance.
//
// Called once, from main.
#ifndef HARNESS_NUMA_COMMANDS_H_
#define HARNESS_NUMA_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace engine_race::harness {

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

#endif  // HARNESS_NUMA_COMMANDS_H_
