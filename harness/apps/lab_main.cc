// The experiments: `bin/lab io` measures ways to read a disk, `bin/lab l1` lookups in memory.
#include <CLI/CLI.hpp>

#include "harness/experiments/io/command.h"
#include "harness/experiments/l1/child.h"
#include "harness/experiments/l1/command.h"
#include "harness/system/command_line.h"
#include "harness/system/own_child.h"

int main(int argc, char** argv) {
  const harness::ChildWorks works = {{harness::kL1StepWork, harness::RunL1Step}};
  if (const auto code = harness::ChildMain(argc, argv, works)) return *code;
  CLI::App app("Experiments: what the disks can do, and what lookups in memory cost.");
  app.require_subcommand(1);
  harness::IoFlags io_flags;
  const CLI::App* const io = harness::AddIoCommand(&app, &io_flags);
  harness::L1RaceFlags l1_flags;
  harness::AddL1Command(&app, &l1_flags);
  if (const auto code = harness::ParseCommandLine("lab", argc, argv, &app)) return *code;
  return *io ? harness::RunIo(io_flags) : harness::RunL1Command(l1_flags);
}
