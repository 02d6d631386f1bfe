// `bin/lab l1`: the ablation of "In-Memory read performance of X-Engine" on this machine, step by
// step from a cache of blocks to direct pointers.
#ifndef HARNESS_EXPERIMENTS_L1_COMMAND_H_
#define HARNESS_EXPERIMENTS_L1_COMMAND_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "harness/experiments/l1/race.h"

namespace engine_race::harness {

struct L1RaceFlags {
  L1RaceConfig config;
  std::string parent = ".";
  // 0: FittingL1Records decides.
  uint64_t record_count = 0;
  std::string json_path;
  std::string plot_dir;
  bool sweeps = false;
  bool without_children = false;
  bool without_huge_pages = false;
  bool is_smoke = false;
};

CLI::App* AddL1Command(CLI::App* app, L1RaceFlags* flags);
// Returns the exit code.
int RunL1Command(L1RaceFlags flags);

// The default number of records of a table. One step takes at most half of the memory, and its
// files at most half of the disk. The steps were first measured with twenty million records, which
// is the limit.
uint64_t FittingL1Records(const L1Records& records, uint64_t memory_bytes, uint64_t disk_bytes);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_COMMAND_H_
