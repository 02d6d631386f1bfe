// The experiments: `bin/lab io` measures ways to read a disk, `bin/lab l1` lookups in memory.
#include <CLI/CLI.hpp>

#include "harness/experiments/io/lab.h"
#include "harness/experiments/l1/race.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"

namespace engine_race::harness {
namespace {

int Main(int argc, char** argv) {
  const ChildWorks works = {{kL1StepWork, RunL1Step}};
  if (const auto code = ChildMain(argc, argv, works)) return *code;
  CLI::App app("Experiments: what the disks can do, and what lookups in memory cost.");
  app.require_subcommand(1);
  IoFlags io_flags;
  const CLI::App* const io = AddIoCommand(&app, &io_flags);
  L1RaceFlags l1_flags;
  AddL1Command(&app, &l1_flags);
  if (const auto code = ParseCommandLine("lab", argc, argv, &app)) return *code;
  return *io ? RunIo(io_flags) : RunL1Command(l1_flags);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
