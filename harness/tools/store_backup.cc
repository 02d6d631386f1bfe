#include "harness/tools/store_command.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "engine_race/store.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// Prints what a backup has, or why there is none. Returns the exit code.
int AnswerBackup(const char* what, const char* done, const std::string& dir, const Status& status,
                 const BackupReport& report) {
  if (!status.ok()) {
    std::fprintf(stderr, "store %s: %s: %s\n", what, dir.c_str(), status.ToString().c_str());
    return status.code() == Code::kCorruption ? kExitFailure : kExitRefused;
  }
  std::printf("%" PRIu64 " records %s; %" PRIu64 " values in %.1f MB here, %u backup%s needed\n",
              report.record_count, done, report.value_count,
              static_cast<double>(report.size_bytes) / 1e6, report.chain_length,
              report.chain_length == 1 ? "" : "s");
  return kExitDone;
}

// Calls `run` with a progress function that shows a line.
template <typename RunFn>
Status WithProgress(const char* what, const RunFn& run) {
  CommandProgress progress(what);
  return run([&](uint64_t done, uint64_t most) { return progress.Note(done, most); });
}

}  // namespace

int RunVerifyBackup(const std::string& backup) {
  BackupReport report;
  const Status status = WithProgress("verify", [&](const auto& on_progress) {
    return Store::VerifyBackup({}, backup, &report, on_progress);
  });
  return AnswerBackup("verify", "verified", backup, status, report);
}

// Backs the store up into `to`: what changed since the backup in `since`, or everything.
int RunBackup(const std::string& dir, const std::string& to, const std::string& since,
              bool verify) {
  std::unique_ptr<Store> store;
  Status status = Store::Open(CommandOptions(), dir, &store);
  if (!status.ok()) return Refuse("backup", dir, status);
  BackupReport report;
  status = WithProgress("backup", [&](const auto& on_progress) {
    return store->Backup(to, {since, on_progress}, &report);
  });
  store.reset();
  const int code = AnswerBackup("backup", "backed up", to, status, report);
  return code == kExitDone && verify ? RunVerifyBackup(to) : code;
}

// Makes a store in `to` of a backup and its parents, comparing everything with its checksums.
int RunRestore(const std::string& backup, const std::string& to) {
  BackupReport report;
  const Status status = WithProgress("restore", [&](const auto& on_progress) {
    return Store::Restore({}, backup, to, &report, on_progress);
  });
  return AnswerBackup("restore", "restored", backup, status, report);
}

namespace {

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

int RunCompact(const std::string& dir) {
  const uint64_t began_ns = NowNs();
  Options options = CommandOptions();
  options.reclaim = Reclaim::kOff;
  std::unique_ptr<Store> store;
  if (const Status opened = Store::Open(options, dir, &store); !opened.ok()) {
    return Refuse("compact", dir, opened);
  }
  const Status compacted = store->Compact();
  const StoreStats stats = store->Stats();
  store.reset();
  const double seconds = SecondsSince(began_ns);
  std::printf("%.1f MB freed in %.1f s, %.1f MB written again; %.1f MB are live, %.1f MB dead\n",
              Megabytes(stats.reclaim_freed_bytes), seconds, Megabytes(stats.reclaim_moved_bytes),
              Megabytes(stats.live_bytes), Megabytes(stats.dead_bytes));
  return compacted.ok() ? kExitDone : Refuse("compact", dir, compacted);
}

}  // namespace engine_race::harness
