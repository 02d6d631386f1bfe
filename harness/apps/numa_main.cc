// NUMA nodes: `numa report` shows where the memory of processes lies.
#include <CLI/CLI.hpp>

#include "harness/numa/report_command.h"

int main(int argc, char** argv) {
  CLI::App app("NUMA nodes: where the memory of processes lies.");
  app.require_subcommand(1);
  harness::ReportFlags report_flags;
  harness::AddReportCommand(&app, &report_flags);
  CLI11_PARSE(app, argc, argv);
  return harness::RunReport(report_flags);
}
