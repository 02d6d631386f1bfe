// The race: write, read, range twice, each phase a process of its own on one directory, every
// phase beside what the device gives.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/data/value_maker.h"
#include "harness/experiments/io/command.h"
#include "harness/experiments/l1/command.h"
#include "harness/measure/json_file.h"
#include "harness/race/dir.h"
#include "harness/race/phase.h"
#include "harness/race/process.h"
#include "harness/race/runner.h"
#include "harness/race/store_tools.h"
#include "harness/system/child_process.h"
#include "harness/system/fio_runner.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

constexpr uint64_t kDefaultRecordsPerThread = 20000;
constexpr uint64_t kMinRecordsPerThread = 16;

struct RaceFlags {
  RaceConfig config;
  std::string dir;
  // 0: as many as fit.
  uint64_t records_per_thread = 0;
  std::string keys = "uniform";
  std::vector<std::string> phases = {"write", "read", "range"};
  std::string json_path;
  bool without_fio = false;

  bool Has(Phase phase) const {
    return std::find(phases.begin(), phases.end(), PhaseName(phase)) != phases.end();
  }
};

int Refuse(const std::string& why) {
  std::fprintf(stderr, "race: %s\n", why.c_str());
  return 2;
}

double Gigabytes(uint64_t bytes) { return static_cast<double>(bytes) * 1e-9; }

void AddFlags(RaceFlags* flags, CLI::App* app) {
  app->add_option("--dir", flags->dir,
                  "directory of the store; by default a fresh one here, removed at the end");
  app->add_option("--threads", flags->config.thread_count, "threads of every phase")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  app->add_option("--num", flags->records_per_thread,
                  "records per thread; by default 20000, or what fits the disk")
      ->check(CLI::PositiveNumber);
  app->add_option("--keys", flags->keys, "uniform, sequential, zipfian or onebucket")
      ->check(CLI::IsMember({"uniform", "sequential", "zipfian", "onebucket"}))
      ->capture_default_str();
  app->add_option("--phases", flags->phases, "which of write,read,range")
      ->delimiter(',')
      ->check(CLI::IsMember({"write", "read", "range"}))
      ->capture_default_str();
  app->add_option("--memory-limit", flags->config.memory_budget_bytes,
                  "the engine's memory budget: 2G, 512M, ...")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app->add_option("--seed", flags->config.seed, "seed of keys, values and reads")
      ->capture_default_str();
  app->add_option("--json", flags->json_path, "also write the results into this file");
  app->add_flag("--no-fio", flags->without_fio, "do not measure the device");
}

// What the run takes on disk: the store, and beside it the files of fio, which are as large.
uint64_t NeededBytes(const RaceFlags& flags, uint64_t record_count, bool has_fio) {
  const uint64_t store_bytes = flags.Has(Phase::kWrite) ? StoreBytes(record_count) : 0;
  return store_bytes + (has_fio ? record_count * kValueSize : 0);
}

// Settles how many records there are; false when they do not fit.
bool FitRecords(const RaceFlags& flags, bool has_fio, uint64_t free_bytes, RaceConfig* config) {
  config->records_per_thread = flags.records_per_thread;
  if (flags.records_per_thread == 0) {
    config->records_per_thread = kDefaultRecordsPerThread;
    // A tenth of the disk is left free.
    while (config->records_per_thread > kMinRecordsPerThread &&
           NeededBytes(flags, config->record_count(), has_fio) > free_bytes / 10 * 9) {
      config->records_per_thread = config->records_per_thread * 9 / 10;
    }
  }
  const uint64_t needed_bytes = NeededBytes(flags, config->record_count(), has_fio);
  std::printf("disk: %.2f GB needed (store %.2f GB, fio's files %.2f GB), %.2f GB free\n",
              Gigabytes(needed_bytes),
              flags.Has(Phase::kWrite) ? Gigabytes(StoreBytes(config->record_count())) : 0.0,
              has_fio ? Gigabytes(config->record_count() * kValueSize) : 0.0,
              Gigabytes(free_bytes));
  return needed_bytes <= free_bytes;
}

// Without a write phase the store must be there already, with just these records.
bool AdoptStore(const RaceDir& dir, const RaceConfig& config, uint64_t* records_per_thread,
                std::string* error) {
  const std::optional<RaceConfig> note = dir.ReadNote();
  if (!note) {
    *error = "no store in " + dir.path() + ": run the write phase first";
    return false;
  }
  if (*records_per_thread == 0) *records_per_thread = note->records_per_thread;
  if (note->thread_count != config.thread_count || note->keys != config.keys ||
      note->seed != config.seed || note->records_per_thread != *records_per_thread) {
    *error = "the store in " + dir.path() + " was written with other --threads, --num, --keys or " +
             "--seed; its race.json says which";
    return false;
  }
  return true;
}

std::vector<PhaseReport> RunRace(const RaceFlags& flags, const RaceConfig& config, RaceDir* dir,
                                 FioRunner* fio, std::string* error) {
  std::vector<PhaseReport> reports;
  for (const Phase phase : {Phase::kWrite, Phase::kRead, Phase::kRange}) {
    if (!flags.Has(phase)) continue;
    if (phase == Phase::kWrite && !dir->StartStore(config, error)) break;
    reports.push_back(MeasurePhase(phase, config, fio));
    if (!reports.back().result.ok || Interrupted()) break;
  }
  return reports;
}

void PrintReports(const std::vector<PhaseReport>& reports, bool has_fio) {
  std::printf("\n%s\n", ReportTable(reports).c_str());
  if (!has_fio) std::printf("device: not measured, fio is missing or was not asked for\n");
  for (const PhaseReport& report : reports) {
    const char* name = PhaseName(report.phase);
    if (!report.result.ok) std::printf("%s FAILED: %s\n", name, report.result.error.c_str());
    if (report.has_device()) {
      std::printf("device, %s: %s, %.1f MB/s before and %.1f MB/s after\n", name,
                  report.before.job.c_str(), report.before.bytes_per_second * 1e-6,
                  report.after.bytes_per_second * 1e-6);
    } else if (has_fio && report.result.ok) {
      std::printf("device, %s: %s\n", name,
                  (report.before.ok ? report.after : report.before).error.c_str());
    }
  }
  if (!reports.empty()) {
    std::printf("page cache between the phases: %s\n", reports[0].cache_drop.c_str());
  }
}

bool WriteJson(const RaceFlags& flags, const RaceConfig& config,
               const std::vector<PhaseReport>& reports, bool ok) {
  return SaveJson({{"ok", ok},
                   {"machine", DescribeMachine(config.dir)},
                   {"config", config},
                   {"phases", reports}},
                  flags.json_path);
}

int Race(RaceFlags flags) {
  RaceConfig config = flags.config;
  config.keys = *ParseKeyShape(flags.keys);
  RaceDir dir;
  std::string error;
  if (!dir.Prepare(flags.dir, &error)) return Refuse(error);
  config.dir = dir.path();
  const bool has_fio = !flags.without_fio && FioRunner::Available();
  if (flags.Has(Phase::kWrite)) {
    // A race's own store that lies here already makes room for the new one.
    if (dir.ReadNote()) dir.RemoveStore();
  } else if (!AdoptStore(dir, config, &flags.records_per_thread, &error)) {
    return Refuse(error);
  }
  std::printf("race: %s, %s\n", dir.path().c_str(), FileSystemName(dir.path()).c_str());
  if (!FitRecords(flags, has_fio, FreeBytes(dir.path()), &config)) {
    return Refuse("not enough space: choose another --dir or a smaller --num");
  }
  std::printf("%u threads, %llu records each, %s keys, seed %llu\n", config.thread_count,
              static_cast<unsigned long long>(config.records_per_thread), flags.keys.c_str(),
              static_cast<unsigned long long>(config.seed));
  std::fflush(stdout);
  CatchInterrupts();
  FioRunner fio(dir.path());
  const std::vector<PhaseReport> reports =
      RunRace(flags, config, &dir, has_fio ? &fio : nullptr, &error);
  if (!error.empty()) return Refuse(error);
  const bool ok = std::all_of(reports.begin(), reports.end(),
                              [](const PhaseReport& report) { return report.result.ok; });
  PrintReports(reports, has_fio);
  if (!WriteJson(flags, config, reports, ok)) return Refuse("cannot write " + flags.json_path);
  if (Interrupted()) return 130;
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace harness

int main(int argc, char** argv) {
  if (const auto code = harness::PhaseMain(argc, argv)) return *code;
  harness::RaceFlags flags;
  CLI::App app("The race: write, read and range twice, each a process of its own, beside fio.");
  harness::AddFlags(&flags, &app);
  std::string store_dir;
  bool every_bucket = false;
  CLI::App* const verify =
      app.add_subcommand("verify", "compare every record of a store with its checksums");
  verify->add_option("DIR", store_dir, "the store")->required();
  std::string copy_dir;
  std::vector<std::string> copy_paths;
  CLI::App* const copy = app.add_subcommand("copy", "copy a closed store, verifying every record");
  copy->add_option("SRC", store_dir, "the store")->required();
  copy->add_option("DST", copy_dir, "where the copy goes: missing or empty")->required();
  copy->add_option("--paths", copy_paths,
                   "directories or devices for the values; by default DST itself")
      ->delimiter(',');
  CLI::App* const dump = app.add_subcommand("dump", "print a store's manifest, fill and skew");
  dump->add_option("DIR", store_dir, "the store")->required();
  dump->add_flag("--buckets", every_bucket, "and a line for each bucket");
  harness::IoFlags io_flags;
  const CLI::App* const io = harness::AddIoCommand(&app, &io_flags);
  harness::L1RaceFlags l1_flags;
  const CLI::App* const l1 = harness::AddL1Command(&app, &l1_flags);
  CLI11_PARSE(app, argc, argv);
  if (*io) return harness::RunIo(io_flags);
  if (*l1) return harness::RunL1Command(l1_flags);
  if (*verify) return harness::VerifyStoreIn(store_dir);
  if (*copy) return harness::CopyStoreIn(store_dir, copy_dir, copy_paths);
  if (*dump) return harness::DumpStoreIn(store_dir, every_bucket);
  return harness::Race(flags);
}
