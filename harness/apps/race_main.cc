// The race: write, read, range twice, and on demand reads mixed with writes. Each phase is a
// process of its own on the same directory, and is compared with the rates of the device.
#include <signal.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/race/runner.h"
#include "harness/system/child_process.h"
#include "harness/system/command_line.h"
#include "harness/system/disk.h"
#include "harness/system/exit_codes.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {
namespace {

constexpr char kProgram[] = "race";

constexpr uint64_t kDefaultRecordsPerThread = 20000;
constexpr uint64_t kMinRecordsPerThread = 16;

struct RaceFlags {
  RaceConfig config;
  std::string dir;
  // 0: as many records as fit on the disk.
  uint64_t records_per_thread = 0;
  std::string keys = "uniform";
  std::vector<std::string> phases = {"write", "read", "range"};
  std::string table_path;
  std::string json_path;
  bool without_fio = false;
  bool without_index_files = false;
  std::string key_range;
  std::vector<int> gate;
  std::string numa = "none";

  bool Has(Phase phase) const {
    return std::find(phases.begin(), phases.end(), PhaseName(phase)) != phases.end();
  }
};

double Gigabytes(uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

void AddFlags(RaceFlags* flags, CLI::App* app) {
  app->add_option("--dir", flags->dir,
                  "directory of the store; by default a fresh one here, removed at the end");
  app->add_option("--threads", flags->config.thread_count, "threads of every phase")
      ->check(CLI::Range(1u, 4096u));
  app->add_option("--num", flags->records_per_thread,
                  "records per thread; by default 20000, or as many bytes, or what fits the disk")
      ->check(CLI::Range(uint64_t{1}, kMaxRecordsPerThread));
  app->add_option("--value_size", flags->config.value_bytes,
                  "bytes of each value; the contest's have 4096")
      ->check(CLI::Range(kMinValueBytes, kMaxValueBytes));
  app->add_option("--keys", flags->keys, "uniform, sequential, zipfian or onebucket")
      ->check(OneOf("shape", KeyShapeNames()));
  app->add_option("--phases", flags->phases, "which of write,read,mixed,range")
      ->delimiter(',')
      ->check(OneOf("phase", {"write", "read", "mixed", "range"}));
  app->add_option("--memory-limit", flags->config.memory_budget_bytes,
                  "the engine's memory budget: 2G, 512M, ...")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--key-range", flags->key_range,
                  "FIRST-LAST, the keys of the store, both included; 0x for hexadecimal");
  app->add_option("--numa", flags->numa,
                  "where the store puts its memory: none, interleave, interleave:NODES or "
                  "bind:NODES, with nodes such as 0,2-3");
  app->add_flag("--own-text", flags->config.moves_text,
                "move the program's text to memory of its own before each phase");
  app->add_option("--gate", flags->gate,
                  "two descriptors, IN,OUT, through which `numa race` lets its instances wait for "
                  "each other")
      ->delimiter(',')
      ->expected(2)
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app->add_option("--seed", flags->config.seed, "seed of keys, values and reads");
  app->add_option("--table", flags->table_path, "also write the table into this file")->take_last();
  app->add_option("--json", flags->json_path, "also write all figures into this file")->take_last();
  app->add_flag("--no-index-files", flags->without_index_files,
                "do not write the index to disk, unless memory asks for it");
  app->add_flag("--no-fio", flags->without_fio, "do not measure the device");
}

// The space that the run takes on disk: the store, and fio's files, which are as large.
uint64_t NeededBytes(const RaceFlags& flags, uint64_t record_count, bool has_fio) {
  const uint32_t value_bytes = flags.config.value_bytes;
  return RaceBytes(record_count, flags.Has(Phase::kWrite), flags.Has(Phase::kMixed), value_bytes) +
         (has_fio ? record_count * value_bytes : 0);
}

// Decides the number of records; false when they do not fit.
bool FitRecords(const RaceFlags& flags, bool has_fio, uint64_t free_bytes, RaceConfig* config) {
  config->records_per_thread = flags.records_per_thread;
  if (flags.records_per_thread == 0) {
    config->records_per_thread = std::min(
        kDefaultRecordsPerThread * kValueSize / std::max<uint64_t>(config->value_bytes, kValueSize),
        MaxKeyCount(config->keys, config->key_range) / config->thread_count);
    // A tenth of the disk is left free.
    while (config->records_per_thread > kMinRecordsPerThread &&
           NeededBytes(flags, config->record_count(), has_fio) > free_bytes / 10 * 9) {
      config->records_per_thread = config->records_per_thread * 9 / 10;
    }
  }
  const uint64_t needed_bytes = NeededBytes(flags, config->record_count(), has_fio);
  std::printf("disk: %.2f GB needed (store %.2f GB, fio's files %.2f GB), %.2f GB free\n",
              Gigabytes(needed_bytes),
              flags.Has(Phase::kWrite)
                  ? Gigabytes(StoreBytes(config->record_count(), config->value_bytes))
                  : 0.0,
              has_fio ? Gigabytes(config->record_count() * config->value_bytes) : 0.0,
              Gigabytes(free_bytes));
  return needed_bytes <= free_bytes;
}

// Without a write phase the store must exist and have these records.
Status AdoptStore(const RaceDir& dir, const RaceConfig& config, uint64_t* records_per_thread) {
  const std::optional<RaceConfig> note = dir.ReadNote();
  if (!note) {
    return Status::InvalidArgument("no store in " + dir.path() + ": run the write phase first");
  }
  if (*records_per_thread == 0) *records_per_thread = note->records_per_thread;
  if (note->thread_count != config.thread_count || note->keys != config.keys ||
      note->key_range != config.key_range || note->seed != config.seed ||
      note->value_bytes != config.value_bytes || note->records_per_thread != *records_per_thread) {
    return Status::InvalidArgument("the store in " + dir.path() +
                                   " was written with other --threads, --num, --keys, " +
                                   "--key-range, --value_size or --seed; its race.json says which");
  }
  return Status::Ok();
}

Status RunRace(const RaceFlags& flags, const RaceConfig& config, RaceDir* dir, FioRunner* fio,
               std::vector<PhaseReport>* reports) {
  for (const Phase phase : {Phase::kWrite, Phase::kRead, Phase::kMixed, Phase::kRange}) {
    if (!flags.Has(phase)) continue;
    if (phase == Phase::kWrite) ENGINE_RACE_RETURN_IF_ERROR(dir->StartStore(config));
    reports->push_back(MeasurePhase(phase, config, fio));
    if (!reports->back().result.ok || Interrupted()) break;
  }
  return Status::Ok();
}

// The table of the phases, the failures, and the rates of the device.
std::string ReportText(const RaceConfig& config, const std::vector<PhaseReport>& reports,
                       bool has_fio) {
  std::string text = config.has_contest_size() ? "" : NotTheContest(config) + "\n\n";
  text += ReportTable(reports) + "\n";
  if (!has_fio) text += "device: not measured, fio is missing or was not asked for\n";
  for (const PhaseReport& report : reports) {
    const std::string name = PhaseName(report.phase);
    if (!report.result.ok) text += name + " FAILED: " + report.result.error + "\n";
    if (report.has_device()) {
      text += "device, " + name + ": " + report.before.job + ", " +
              Fixed(report.before.bytes_per_second * 1e-6, 1) + " MB/s before and " +
              Fixed(report.after.bytes_per_second * 1e-6, 1) + " MB/s after\n";
    } else if (has_fio && report.result.ok) {
      text +=
          "device, " + name + ": " + (report.before.ok ? report.after : report.before).error + "\n";
    }
  }
  if (!reports.empty()) {
    text += "page cache between the phases: " + reports[0].cache_drop + "\n";
  }
  return text;
}

// Writes the requested files and prints their paths. Returns the path that could not be written, or
// nothing.
std::string Save(const RaceFlags& flags, const RaceConfig& config,
                 const std::vector<PhaseReport>& reports, const std::string& text, bool ok) {
  if (!SaveText(text, flags.table_path)) return flags.table_path;
  if (!SaveRace(config, reports, ok, flags.json_path)) return flags.json_path;
  if (!flags.table_path.empty()) std::printf("table saved in %s\n", flags.table_path.c_str());
  if (!flags.json_path.empty()) std::printf("figures saved in %s\n", flags.json_path.c_str());
  return {};
}

// Parses the flags that are texts into *config. Returns an empty string or what is wrong.
std::string ParseTextFlags(const RaceFlags& flags, RaceConfig* config) {
  config->keys = *ParseKeyShape(flags.keys);
  config->writes_index = !flags.without_index_files;
  if (flags.gate.size() == 2) config->gate = {.in = flags.gate[0], .out = flags.gate[1]};
  numa::Topology topology;
  // Without a topology the store says what it does without.
  static_cast<void>(numa::ReadTopology(numa::kSysfsRoot, &topology));
  const std::string bad_numa = ParseNumaFlag(flags.numa, topology, &config->numa);
  if (!bad_numa.empty()) return bad_numa;
  if (!flags.key_range.empty()) {
    const std::optional<KeyRange> range = ParseKeyRange(flags.key_range);
    if (!range) return "--key-range " + flags.key_range + " is no FIRST-LAST, or LAST comes first";
    config->key_range = *range;
  }
  if (config->memory_budget_bytes < kMinMemoryBudgetBytes) {
    return "--memory-limit is below " + std::to_string(kMinMemoryBudgetBytes);
  }
  // Each thread writes one record at least.
  const uint64_t least_count =
      config->thread_count * std::max(uint64_t{1}, flags.records_per_thread);
  if (least_count > MaxKeyCount(config->keys, config->key_range)) {
    return "--key-range " + flags.key_range + " has fewer keys than there are records";
  }
  return {};
}

int Race(RaceFlags flags) {
  RaceConfig config = flags.config;
  const std::string bad_flag = ParseTextFlags(flags, &config);
  if (!bad_flag.empty()) return Refuse(kProgram, bad_flag);
  // A launcher that is killed cannot stop its instances any more.
  if (config.gate.out >= 0) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  RaceDir dir;
  Status ready = dir.Prepare(flags.dir);
  if (ready.ok() && !flags.Has(Phase::kWrite)) {
    ready = AdoptStore(dir, config, &flags.records_per_thread);
  }
  if (!ready.ok()) return Refuse(kProgram, ready.message());
  config.dir = dir.path();
  const bool has_fio = !flags.without_fio && FioRunner::Available();
  if (!PassGate(config.gate, "ready")) return Refuse(kProgram, "the other instances have stopped");
  // An earlier race's store makes room for the new one.
  if (flags.Has(Phase::kWrite) && dir.ReadNote()) dir.RemoveStore();
  std::printf("race: %s, %s\n", dir.path().c_str(), FileSystemName(dir.path()).c_str());
  if (!FitRecords(flags, has_fio, FreeBytes(dir.path()), &config)) {
    return Refuse(kProgram, "not enough space: choose another --dir or a smaller --num");
  }
  std::printf("%u threads, %llu records each, %s keys, seed %llu\n", config.thread_count,
              static_cast<unsigned long long>(config.records_per_thread), flags.keys.c_str(),
              static_cast<unsigned long long>(config.seed));
  std::fflush(stdout);
  CatchInterrupts();
  FioRunner fio(dir.path());
  std::vector<PhaseReport> reports;
  const Status started = RunRace(flags, config, &dir, has_fio ? &fio : nullptr, &reports);
  if (!started.ok()) return Refuse(kProgram, started.message());
  const bool ok = std::all_of(reports.begin(), reports.end(),
                              [](const PhaseReport& report) { return report.result.ok; });
  const std::string text = ReportText(config, reports, has_fio);
  std::printf("\n%s", text.c_str());
  const std::string unwritten = Save(flags, config, reports, text, ok);
  if (!unwritten.empty()) return Refuse(kProgram, "cannot write " + unwritten);
  if (Interrupted()) return kExitInterrupted;
  return ok ? kExitDone : kExitFailure;
}

int Main(int argc, char** argv) {
  const ChildWorks works = {{kPhaseWork, RunPhaseWork}};
  if (const auto code = ChildMain(argc, argv, works)) return *code;
  RaceFlags flags;
  CLI::App app("The race: write, read and range twice, each a process of its own, beside fio.");
  AddFlags(&flags, &app);
  if (const auto code = ParseCommandLine("race", argc, argv, &app)) return *code;
  return Race(flags);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
