// `bin/numa copy`: a copy of a program with its pages on NUMA nodes. `bin/numa race` runs it, bound
// to the nodes of an instance.
//
// Called once, from main.
#ifndef HARNESS_NUMA_COPY_COMMAND_H_
#define HARNESS_NUMA_COPY_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>

namespace harness {

struct CopyFlags {
  std::string source;
  std::string target;
  std::string nodes;
};

CLI::App* AddCopyCommand(CLI::App* app, CopyFlags* flags);
// Returns the exit code.
int RunCopy(const CopyFlags& flags);

}  // namespace harness

#endif  // HARNESS_NUMA_COPY_COMMAND_H_
