// `bin/lab l1`: the gain of each step from a cache of blocks to direct pointers, as tables of rows.
//
// Steps that fit into memory together alternate in rounds. Otherwise each is opened, measured and
// closed before the next.
#ifndef HARNESS_EXPERIMENTS_L1_RACE_H_
#define HARNESS_EXPERIMENTS_L1_RACE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/experiments/l1/tables.h"
#include "harness/load/l1_lookups.h"
#include "harness/measure/claim_rounds.h"
#include "harness/measure/report.h"

namespace engine_race::harness {

struct L1RaceConfig {
  std::string dir;  // empty and writable
  L1Records records;
  std::vector<uint32_t> thread_counts = {1, 2, 4};
  L1RoundsShape rounds{3, 1.0, 0.2, 1};
  uint64_t lookup_count = uint64_t{1} << 22;  // drawn beforehand
  uint32_t batch_size = 64;
  // All steps are in memory at once and alternate.
  bool alternates = true;
  // Runs this program under valgrind and perf as well.
  bool has_children = true;
  // Fewer of each under valgrind, which is a hundred times slower.
  uint64_t counted_records = uint64_t{1} << 20;
  uint64_t counted_lookups = 16384;
  uint64_t sampled_lookups = uint64_t{1} << 20;  // under perf
  // The largest size of the sweep's tables.
  uint64_t swept_bytes = uint64_t{256} << 20;
  std::vector<uint32_t> swept_key_bytes = {8, 16, 32};
  std::vector<uint32_t> swept_payload_bytes = {8, 16, 32, 64, 128, 256};
};

// The most memory that one step takes.
uint64_t L1StepBytes(const L1Records& records);

class L1Race {
 public:
  explicit L1Race(const L1RaceConfig& config) : config_(config), rates_({}) {}

  // Measures the throughput of the steps, the breakdown and the cache's share.
  Status Steps(Experiments* tables);
  // Measures the gains for several lengths of keys and payloads.
  Status Sweep(Experiments* tables);

 private:
  Status MeasureSteps();
  Status MeasureShards();
  void AddContenders(const char* name, const L1Tables& tables,
                     std::vector<L1Contender>* contenders) const;
  // Counts in this process, when the processor's counters are available.
  Status CountHere(const char* name, const L1Tables& tables);
  // Counts under valgrind, when they are not.
  Status CountInChildren();

  double RateOf(const std::string& name, uint32_t threads) const;
  Experiment StepTable() const;
  Experiment Breakdown() const;
  Experiment CacheShare();
  Status SweepOne(const L1Records& records, ResultRow* row) const;

  const L1RaceConfig config_;
  ClaimRounds rates_;
  std::unique_ptr<L1Files> files_;
  std::unique_ptr<L1Lookups> lookups_;
  // As many lookups as lookups_ has, in batches of one table.
  std::unique_ptr<L1Lookups> groups_;
  // The counts of a lookup, by step, as far as they are known.
  std::map<std::string, ResultRow> counts_;
  std::string counted_by_;
};

// `bin/lab l1`: the ablation of "In-Memory read performance of X-Engine" on this machine, step by
// step from a cache of blocks to direct pointers.

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

// One step of the lookups in a child process, for two profilers. Valgrind counts instructions and
// cache misses; perf shows where the time goes.
//
// The tables are those that its parent has built.

struct L1Child {
  std::string dir;  // with the step's tables
  L1Records records;
  std::string step;
  uint64_t lookup_count = 0;  // one thread makes all of them in each pass
  uint32_t pass_count = 1;
  // Of a profiler, see ProfilerSwitch; empty: there is none to switch.
  std::string control = {};
  std::string answer = {};
};

// The work of the child.
inline constexpr char kL1StepWork[] = "l1-step";
Status RunL1Step(const nlohmann::json& order, nlohmann::json* answer);

// The work of an average lookup, by simulation.
struct L1Counts {
  double instructions = 0;
  double l1d_misses = 0;
};

// Counts with valgrind's cachegrind, which simulates a first data cache as large as this machine's
// but simpler. It runs the child twice, with more passes the second time: the difference is the
// work of lookups alone. kNotSupported without valgrind.
Status CountL1Step(L1Child child, L1Counts* counts);

// The share of its time that a step spends in the block cache and its locks, by perf's software
// clock. kNotSupported where perf does not work.
Status SampleL1Cache(L1Child child, double* share);

// Parses a file that cachegrind wrote: the sum of each event over the program.
Status ParseCachegrind(const std::string& text, L1Counts* counts);
// Parses the output of `perf report -F overhead,sym`: adds the shares of the cache's functions.
Status ParseCacheShare(const std::string& text, double* share);

}  // namespace engine_race::harness

#endif  // HARNESS_EXPERIMENTS_L1_RACE_H_
