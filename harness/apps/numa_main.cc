// NUMA nodes: `numa report` shows where the memory of processes lies. `numa race` runs an instance
// of the race on each node. `numa copy` makes one of the copies that such instances run.
#include <CLI/CLI.hpp>

#include "harness/numa/report.h"
#include "harness/system/command_line.h"

namespace engine_race::harness {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("NUMA nodes: where memory lies, and a race with one instance per node.");
  app.require_subcommand(1);
  ReportFlags report_flags;
  const CLI::App* const report = AddReportCommand(&app, &report_flags);
  NumaRaceFlags race_flags;
  const CLI::App* const race = AddRaceCommand(&app, &race_flags);
  CopyFlags copy_flags;
  const CLI::App* const copy = AddCopyCommand(&app, &copy_flags);
  // Runs only where numactl could bind it.
  app.add_subcommand("bound", "does nothing")->group("");
  if (const auto code = ParseCommandLine("numa", argc, argv, &app)) return *code;
  if (*report) return RunReport(report_flags);
  if (*race) return RunNumaRace(race_flags);
  return *copy ? RunCopy(copy_flags) : 0;
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
