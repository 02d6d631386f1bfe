// `bin/lab io`: the experiments of "What Modern NVMe Storage Can Do, And How To Exploit It" on the
// user's own disks.
#ifndef HARNESS_EXPERIMENTS_IO_COMMAND_H_
#define HARNESS_EXPERIMENTS_IO_COMMAND_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/experiments/io/lab.h"

namespace engine_race::harness {

struct IoFlags {
  std::string experiments = "all";
  std::string dir = ".";
  std::vector<std::string> paths;
  IoConfig config;
  std::string json_path;
  bool has_tmpfs = false;
};

CLI::App* AddIoCommand(CLI::App* app, IoFlags* flags);
// Returns the exit code.
int RunIo(IoFlags flags);

// Parses "all", or numbers and ranges: "1,4-6". False when a number is not an experiment's.
bool ParseExperiments(const std::string& text, std::vector<int>* numbers);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_IO_COMMAND_H_
