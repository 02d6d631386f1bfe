#include "harness/tools/store_backup.h"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "harness/measure/progress.h"
#include "harness/system/exit_codes.h"

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
  constexpr uint64_t kRecordBytes = kKeyBytes + kValueBytes;
  std::optional<Progress> line;  // once the number of records is known
  return run([&](uint64_t done_count, uint64_t most_count) {
    if (!line) line.emplace(std::string(what) + " ", most_count, kRecordBytes, /*slot_count=*/1);
    line->Add(0, done_count - line->Done());
    return true;
  });
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
  Options options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  std::unique_ptr<Store> store;
  Status status = Store::Open(options, dir, &store);
  if (!status.ok()) {
    const bool is_missing = status.code() == Code::kNotFound;
    std::fprintf(stderr, "store backup: %s: %s\n", dir.c_str(),
                 is_missing ? "there is no store" : status.ToString().c_str());
    return kExitRefused;
  }
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

int Refuse(const std::string& dir, const Status& status) {
  std::fprintf(stderr, "store compact: %s: %s\n", dir.c_str(),
               status.code() == Code::kNotFound ? "there is no store" : status.ToString().c_str());
  return status.code() == Code::kCorruption ? kExitFailure : kExitRefused;
}

}  // namespace

int RunCompact(const std::string& dir) {
  const auto began = std::chrono::steady_clock::now();
  Options options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  options.reclaim = Reclaim::kOff;
  std::unique_ptr<Store> store;
  if (const Status opened = Store::Open(options, dir, &store); !opened.ok()) {
    return Refuse(dir, opened);
  }
  const Status compacted = store->Compact();
  const StoreStats stats = store->Stats();
  store.reset();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%.1f MB freed in %.1f s, %.1f MB written again; %.1f MB are live, %.1f MB dead\n",
              Megabytes(stats.reclaim_freed_bytes), seconds, Megabytes(stats.reclaim_moved_bytes),
              Megabytes(stats.live_bytes), Megabytes(stats.dead_bytes));
  return compacted.ok() ? kExitDone : Refuse(dir, compacted);
}

}  // namespace engine_race::harness
