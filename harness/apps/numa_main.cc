// NUMA nodes: `numa report` shows where the memory of processes lies. `numa race` runs an instance
// of the race on each node. `numa copy` makes one of the copies that such instances run.
#include <CLI/CLI.hpp>

#include "harness/numa/commands.h"
#include "harness/numa/race_command.h"
#include "harness/system/command_line.h"

int main(int argc, char** argv) {
  CLI::App app("NUMA nodes: where memory lies, and a race with one instance per node.");
  app.require_subcommand(1);
  engine_race::harness::ReportFlags report_flags;
  const CLI::App* const report = engine_race::harness::AddReportCommand(&app, &report_flags);
  engine_race::harness::NumaRaceFlags race_flags;
  const CLI::App* const race = engine_race::harness::AddRaceCommand(&app, &race_flags);
  engine_race::harness::CopyFlags copy_flags;
  const CLI::App* const copy = engine_race::harness::AddCopyCommand(&app, &copy_flags);
  // Runs only where numactl could bind it.
  app.add_subcommand("bound", "does nothing")->group("");
  if (const auto code = engine_race::harness::ParseCommandLine("numa", argc, argv, &app))
    return *code;
  if (*report) return engine_race::harness::RunReport(report_flags);
  if (*race) return engine_race::harness::RunNumaRace(race_flags);
  return *copy ? engine_race::harness::RunCopy(copy_flags) : 0;
}
