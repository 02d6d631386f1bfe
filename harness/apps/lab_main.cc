// The experiments: `bin/lab io` measures ways to read a disk, `bin/lab l1` lookups in memory.
#include <CLI/CLI.hpp>

#include "harness/experiments/io/command.h"
#include "harness/experiments/l1/child.h"
#include "harness/experiments/l1/command.h"
#include "harness/system/command_line.h"
#include "harness/system/own_child.h"

int main(int argc, char** argv) {
  const engine_race::harness::ChildWorks works = {
      {engine_race::harness::kL1StepWork, engine_race::harness::RunL1Step}};
  if (const auto code = engine_race::harness::ChildMain(argc, argv, works)) return *code;
  CLI::App app("Experiments: what the disks can do, and what lookups in memory cost.");
  app.require_subcommand(1);
  engine_race::harness::IoFlags io_flags;
  const CLI::App* const io = engine_race::harness::AddIoCommand(&app, &io_flags);
  engine_race::harness::L1RaceFlags l1_flags;
  engine_race::harness::AddL1Command(&app, &l1_flags);
  if (const auto code = engine_race::harness::ParseCommandLine("lab", argc, argv, &app))
    return *code;
  return *io ? engine_race::harness::RunIo(io_flags) : engine_race::harness::RunL1Command(l1_flags);
}
