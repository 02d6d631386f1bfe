// `bin/numa report`: where the memory of running processes lies, and how local that is.
//
// Called once, from main.
#ifndef HARNESS_NUMA_REPORT_COMMAND_H_
#define HARNESS_NUMA_REPORT_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace harness {

struct ReportFlags {
  std::vector<int64_t> pids;
  std::string nodes;
  std::string json_path;
  std::string before_path;
};

CLI::App* AddReportCommand(CLI::App* app, ReportFlags* flags);
// The exit code: 0, 1 when a process cannot be looked into, 2 for flags that name no node or no
// report.
int RunReport(const ReportFlags& flags);

}  // namespace harness

#endif  // HARNESS_NUMA_REPORT_COMMAND_H_
