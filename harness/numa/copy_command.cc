#include "harness/numa/copy_command.h"

#include <cstdint>
#include <cstdio>
#include <vector>

#include "engine_race/numa/topology.h"
#include "harness/numa/text_copy.h"
#include "harness/system/exit_codes.h"

namespace harness {
namespace {

// On standard output, where `numa race` reads the reason.
int RefuseCopy(const std::string& why) {
  std::printf("numa copy: %s\n", why.c_str());
  return kExitRefused;
}

}  // namespace

CLI::App* AddCopyCommand(CLI::App* app, CopyFlags* flags) {
  CLI::App* const copy = app->add_subcommand(
      "copy", "a copy of a program with its pages on NUMA nodes; run it bound to them by numactl");
  copy->add_option("source", flags->source, "the program")->required();
  copy->add_option("target", flags->target, "its copy, which is replaced")->required();
  copy->add_option("nodes", flags->nodes, "where its pages must lie, such as 0-1")->required();
  return copy;
}

int RunCopy(const CopyFlags& flags) {
  std::vector<uint32_t> nodes;
  if (!engine_race::numa::ParseList(flags.nodes, engine_race::numa::kMaxNodeCount, &nodes)) {
    return RefuseCopy(flags.nodes + " is no list of nodes");
  }
  engine_race::Status status = CopyProgram(flags.source, flags.target);
  if (status.ok()) status = PlaceInCache(flags.target, nodes);
  // Without NUMA in the kernel there is no other place where the pages could lie.
  if (status.ok() || status.code() == engine_race::Code::kNotSupported) return kExitDone;
  return RefuseCopy(status.message());
}

}  // namespace harness
