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
// Returns the exit code.
int RunReport(const ReportFlags& flags);

}  // namespace harness

#endif  // HARNESS_NUMA_REPORT_COMMAND_H_
