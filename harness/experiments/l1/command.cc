#include "harness/experiments/l1/race.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "engine_race/base/parallel.h"
#include "harness/experiments/l1/index_race.h"
#include "harness/measure/table.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "lab l1";

constexpr uint64_t kMostRecordsPerTable = 20000000;
// Of the engine's index: as many as its bench has.
constexpr uint64_t kMostIndexKeys = 64000000;

void Shrink(L1RaceConfig* config) {
  config->records.records_per_table = 20000 / config->records.table_count;
  config->rounds = {1, 0.002, 0.002, config->rounds.seed};
  config->lookup_count = 4096;
  config->counted_lookups = 1024;
  config->sampled_lookups = 200000;
  config->swept_key_bytes = {8, 32};
  config->swept_payload_bytes = {8, 256};
}

// Powers of two up to the number of CPUs, and at least up to 4.
std::vector<uint32_t> DefaultThreadCounts() {
  std::vector<uint32_t> counts;
  for (uint32_t count = 1; count <= std::max(4U, AvailableCpuCount()); count *= 2)
    counts.push_back(count);
  return counts;
}

// Decides the number of records and whether steps alternate. Returns nothing, or why the race
// cannot run.
std::string FitRecords(const L1RaceFlags& flags, uint64_t free_disk_bytes, L1RaceConfig* config) {
  L1Records& records = config->records;
  const uint64_t free_bytes = FreeMemoryBytes();
  if (flags.record_count > 0) {
    records.records_per_table = flags.record_count / records.table_count;
  } else if (!flags.is_smoke) {
    records.records_per_table = FittingL1Records(records, free_bytes, free_disk_bytes);
  }
  if (records.records_per_table == 0) return "fewer records than tables";
  const uint64_t step_bytes = L1StepBytes(records);
  config->alternates = L1Steps(L1Use::kRace).size() * step_bytes <= free_bytes / 5 * 4;
  const uint64_t disk_bytes = (config->alternates ? 3 : 1) * L1Files::BytesOf(records);
  std::printf(
      "%u tables of %llu records; a step takes up to %s of memory, %s free; files up to "
      "%s, %s free\n",
      records.table_count, static_cast<unsigned long long>(records.records_per_table),
      ByteText(step_bytes).c_str(), ByteText(free_bytes).c_str(), ByteText(disk_bytes).c_str(),
      ByteText(free_disk_bytes).c_str());
  std::fflush(stdout);
  if (step_bytes > free_bytes) return "not enough memory: choose fewer --records";
  if (disk_bytes > free_disk_bytes) return "not enough disk: choose another --dir";
  return {};
}

nlohmann::json Describe(const L1RaceConfig& config, const Experiments& tables,
                        const Status& status) {
  const L1Records& records = config.records;
  return {{"ok", status.ok()},
          {"error", status.ok() ? "" : status.ToString()},
          {"interrupted", Interrupted()},
          {"machine", DescribeMachine(config.dir)},
          {"config",
           {{"records", records.record_count()},
            {"tables", records.table_count},
            {"key_bytes", records.shape.key_bytes},
            {"payload_bytes", records.shape.payload_bytes},
            {"threads", config.thread_counts},
            {"rounds", config.rounds.round_count},
            {"seconds", config.rounds.seconds},
            {"steps_alternate", config.alternates},
            {"seed", records.seed}}},
          {"experiments", tables}};
}

// Runs scripts/plot, which lies beside the folder of this program. Returns nothing, or the error.
std::string Plot(const std::string& json_path, const std::string& dir) {
  const std::filesystem::path script =
      std::filesystem::path(SelfPath()).parent_path().parent_path() / "scripts" / "plot";
  const ChildResult result = RunChild({script.string(), "--svg", json_path, dir});
  if (!result.started) return result.error;
  std::printf("%s", result.output.c_str());
  return result.exit_code == 0 ? "" : script.string() + " failed";
}

// The lookups of the engine's index, with as many keys as fit and at most as many as the tables
// have records.
Status CompareIndex(const L1RaceConfig& config, Experiments* tables) {
  const uint64_t fitting = std::min(FreeMemoryBytes() / 2 / kL1IndexBytesPerKey,
                                    FreeBytes(config.dir) / 2 / kL1IndexDiskBytesPerKey);
  const uint64_t key_count = std::min({config.records.record_count(), fitting, kMostIndexKeys});
  if (key_count == 0) return Status::OutOfMemory("no room for an index of a single key");
  L1IndexRace race(config, key_count);
  ENGINE_RACE_RETURN_IF_ERROR(race.Prepare());
  return race.Compare(tables);
}

int Race(const L1RaceFlags& flags, const L1RaceConfig& config) {
  CatchInterrupts();
  Experiments tables;
  L1Race race(config);
  Status status = race.Steps(&tables);
  if (status.ok() && flags.sweeps) status = race.Sweep(&tables);
  if (status.ok() && !Interrupted()) status = CompareIndex(config, &tables);
  for (const Experiment& table : tables) std::printf("%s", ExperimentText(table).c_str());
  std::fflush(stdout);
  if (!status.ok()) std::printf("FAILED: %s\n", status.ToString().c_str());
  // The plot needs a file.
  std::string json_path = flags.json_path;
  if (json_path.empty() && !flags.plot_dir.empty()) json_path = config.dir + "/l1.json";
  if (!SaveJson(Describe(config, tables, status), json_path)) {
    return Refuse(kProgram, "cannot write " + json_path);
  }
  if (Interrupted()) return kExitInterrupted;
  if (!flags.plot_dir.empty()) {
    const std::string problem = Plot(json_path, flags.plot_dir);
    if (!problem.empty()) std::printf("no plot: %s\n", problem.c_str());
  }
  return status.ok() ? kExitDone : kExitFailure;
}

}  // namespace

uint64_t FittingL1Records(const L1Records& records, uint64_t memory_bytes, uint64_t disk_bytes) {
  L1Records one = records;
  one.records_per_table = uint64_t{1} << 20;
  const double per_step = static_cast<double>(L1StepBytes(one)) / (1 << 20);
  const double per_file = static_cast<double>(L1Files::BytesOf(one)) / (1 << 20);
  const double fitting = std::min(static_cast<double>(memory_bytes) / 2 / per_step,
                                  static_cast<double>(disk_bytes) / 2 / per_file);
  return std::min(kMostRecordsPerTable, static_cast<uint64_t>(fitting));
}

CLI::App* AddL1Command(CLI::App* app, L1RaceFlags* flags) {
  L1RaceConfig& config = flags->config;
  config.thread_counts = DefaultThreadCounts();
  CLI::App* const l1 = app->add_subcommand(
      "l1", "lookups in tables in memory, step by step from a cache of blocks to direct pointers");
  l1->add_option("--dir", flags->parent, "works in a fresh directory in here, removed at the end");
  l1->add_option("--tables", config.records.table_count)->check(CLI::Range(1u, 1024u));
  l1->add_option("--records", flags->record_count,
                 "in all tables; by default what fits, up to 20 million in each");
  l1->add_option("--key-bytes", config.records.shape.key_bytes)->check(CLI::IsMember({8, 16, 32}));
  l1->add_option("--payload-bytes", config.records.shape.payload_bytes)
      ->check(CLI::Range(kMinPayloadBytes, kMaxPayloadBytes));
  l1->add_option("--threads", config.thread_counts, "as in 1,2,4")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u));
  l1->add_option("--rounds", config.rounds.round_count)->check(CLI::Range(1u, 1000u));
  l1->add_option("--seconds", config.rounds.seconds, "of each run")
      ->check(CLI::Range(0.001, 3600.0));
  l1->add_option("--seed", config.records.seed);
  l1->add_option("--json", flags->json_path, "also write the results into this file");
  l1->add_option("--plot", flags->plot_dir, "also draw them into this directory");
  l1->add_flag("--sweep", flags->sweeps, "and over lengths of keys and payloads");
  l1->add_flag("--no-children", flags->without_children,
               "no counts by valgrind, no samples by perf");
  l1->add_flag("--no-huge-pages", flags->without_huge_pages,
               "frames in pages of 4 KiB, as the cache's blocks are");
  l1->add_flag("--smoke", flags->is_smoke, "everything once, tiny: no figure means much");
  return l1;
}

int RunL1Command(L1RaceFlags flags) {
  L1RaceConfig& config = flags.config;
  config.rounds.seed = config.records.seed;
  config.has_children = !flags.without_children;
  if (flags.is_smoke) Shrink(&config);
  if (flags.without_huge_pages && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) {
    return Refuse(kProgram, "this system cannot leave out huge pages");
  }
  const ScratchDir dir(flags.parent, 0);
  if (dir.path().empty()) return Refuse(kProgram, "cannot work in " + flags.parent);
  config.dir = dir.path();
  const std::string problem = FitRecords(flags, FreeBytes(dir.path()), &config);
  if (!problem.empty()) return Refuse(kProgram, problem);
  return Race(flags, config);
}

}  // namespace engine_race::harness
