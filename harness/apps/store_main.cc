// Reads, writes, verifies, copies, backs up, compacts or describes a store, and follows a running
// one. The rooms of harness/tools have the commands; those of Store::Verify and Store::Copy are
// here.
//
// `backup`, `compact`, `put` and `delete` open the store for writing, which recovers it, and sync
// it. All but `top` refuse a store that a process has open for writing.
#include <CLI/CLI.hpp>
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "engine_race/store.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"
#include "harness/tools/store_command.h"
#include "harness/tools/store_rows.h"

namespace engine_race::harness {
namespace {

using ReadFn = std::function<Status(VerifyReport* report, const BadRecordFn& on_bad,
                                    const ProgressFn& on_progress)>;

// Calls `read`, which is Store::Verify or Store::Copy. Prints the totals and returns the exit code.
int ReadAll(const char* what, const char* done, const std::string& dir, const ReadFn& read) {
  const uint64_t began_ns = NowNs();
  VerifyReport report;
  Status status;
  {
    CommandProgress progress(what);
    status = read(
        &report, [&](const BadRecord& bad) { progress.PrintBad(bad); },
        [&](uint64_t done_count, uint64_t count) { return progress.Note(done_count, count); });
  }
  if (!status.ok() && report.bad_count == 0) return Refuse(what, dir, status);
  std::printf("%" PRIu64 " records %s in %.1f s, %" PRIu64 " bad", report.record_count,
              status.ok() ? done : "looked at", SecondsSince(began_ns), report.bad_count);
  if (report.lost_tail_count > 0) {
    std::printf("; %" PRIu64 " unsynced ones lost with a page cache", report.lost_tail_count);
  }
  if (report.index_record_count > 0) {
    std::printf("; %" PRIu64 " records of the index compared", report.index_record_count);
  }
  if (report.index_unusable_bucket_count > 0) {
    std::printf("; the index of %" PRIu64 " buckets will be built again",
                report.index_unusable_bucket_count);
  }
  std::printf("\n");
  if (status.ok()) return kExitDone;
  return status.code() == Code::kCorruption ? kExitFailure : kExitRefused;
}

// Prints every damaged record, then the totals. Damage is a failure.
int Verify(const std::string& dir) {
  return ReadAll("verify", "verified", dir,
                 [&](VerifyReport* report, const auto& on_bad, const auto& on_progress) {
                   return Store::Verify({}, dir, report, on_bad, on_progress);
                 });
}

// Copies the store into `to`, which must be missing or empty. Copies its values onto `paths`, or
// into `to` when there are none. Prints every damaged record, then the totals. There is a copy only
// if the exit code is kExitDone.
int Copy(const std::string& dir, const std::string& to, const std::vector<std::string>& paths) {
  Options options;
  options.paths = paths;
  const int code = ReadAll("copy", "copied", dir,
                           [&](VerifyReport* report, const auto& on_bad, const auto& on_progress) {
                             return Store::Copy(options, dir, to, report, on_bad, on_progress);
                           });
  if (code == kExitFailure) {
    std::printf("there is no copy: what lies in %s is no store\n", to.c_str());
  }
  return code;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Reads, writes, verifies, copies, backs up, compacts or dumps a store, moves its records "
      "from and to files, and follows a running one.");
  app.require_subcommand(1);
  std::string dir;
  CLI::App* const verify = app.add_subcommand(
      "verify", "compare every record with its checksums, and the index with the key logs");
  verify->add_option("DIR", dir, "the store")->required();
  std::string copy_dir;
  std::vector<std::string> copy_paths;
  CLI::App* const copy = app.add_subcommand("copy", "copy a closed store, verifying every record");
  copy->add_option("SRC", dir, "the store")->required();
  copy->add_option("DST", copy_dir, "where the copy goes: missing or empty")->required();
  copy->add_option("--paths", copy_paths,
                   "directories or devices for the values; by default DST itself")
      ->delimiter(',');
  std::string backup_dir;
  std::string since;
  bool verify_backup = false;
  CLI::App* const backup =
      app.add_subcommand("backup", "back up a closed store, whole or since an earlier backup");
  backup->add_option("SRC", dir, "the store; with --verify alone, a backup");
  backup->add_option("DST", backup_dir, "where the backup goes: missing or empty");
  backup->add_option("--since", since, "an earlier backup: only what changed since is backed up");
  backup->add_flag("--verify", verify_backup, "then read all that a restore would, and compare");
  CLI::App* const restore =
      app.add_subcommand("restore", "make a store of a backup and its parents, verifying them");
  restore->add_option("BACKUP", dir, "the backup")->required();
  restore->add_option("DST", backup_dir, "where the store goes: missing or empty")->required();
  CLI::App* const compact = app.add_subcommand(
      "compact", "give back the space of a closed store's overwritten and deleted records");
  compact->add_option("DIR", dir, "the store")->required();
  bool every_bucket = false;
  CLI::App* const dump =
      app.add_subcommand("dump", "print a store's manifest, fill, skew and index");
  dump->add_option("DIR", dir, "the store")->required();
  dump->add_flag("--buckets", every_bucket, "and a line for each bucket");
  CLI::App* const top = app.add_subcommand(
      "top", "follow a running store that offers its stats: Options::stats_interval_ms");
  bool once = false;
  bool json = false;
  bool prometheus = false;
  top->add_option("DIR", dir, "the store")->required();
  top->add_flag("--once", once, "print the next interval and end");
  CLI::Option* const json_flag = top->add_flag("--json", json, "a line of JSON each time");
  top->add_flag("--prometheus", prometheus, "print the metrics for Prometheus and end")
      ->excludes(json_flag);
  Transfer transfer;
  CLI::App* const import_app =
      app.add_subcommand("import", "store the records of a file: NAME.npy, or keys and values");
  CLI::App* const export_app =
      app.add_subcommand("export", "write all records to a file: NAME.npy, or keys and values");
  for (CLI::App* const command : {import_app, export_app}) {
    command->add_option("DIR", transfer.dir, "the store")->required();
    command->add_option("FILE", transfer.file, "an array, NAME.npy, or records: keys and values")
        ->required();
    command->add_option("--keys", transfer.keys,
                        "an array of keys, NAME.npy; without it a row's number is its key");
    command->add_flag("--resume", transfer.resumes,
                      "go on from FILE.note, the note of an interrupted call");
  }
  import_app->add_flag("--pad", transfer.pads, "fill rows that are too short with zeros");
  import_app->add_flag("--create", transfer.creates, "make the store if there is none");
  AddValueSize(import_app, &transfer.value_bytes,
               "of a store that is made; by default that of an array's rows without --pad, else");
  bool read_only = false;
  bool shell_creates = false;
  CLI::App* const shell =
      app.add_subcommand("shell", "take get, put, delete, scan, count and stats line by line");
  shell->add_option("DIR", dir, "the store")->required();
  shell->add_flag("--read-only", read_only, "share the store with other readers");
  shell->add_flag("--create", shell_creates, "make the store if there is none");
  RecordFlags record_flags;
  AddValueSize(shell, &record_flags.value_bytes, "of a store that is made; by default");
  AddRecordCommands(&app, &record_flags);
  if (const auto code = ParseCommandLine("store", argc, argv, &app)) return *code;
  if (const auto code = RunRecordCommand(app, record_flags)) return *code;
  if (*import_app || *export_app) return RunTransfer(import_app->parsed(), transfer);
  if (*shell) return RunShell(dir, read_only, shell_creates, record_flags.value_bytes);
  if (*verify) return Verify(dir);
  if (*copy) return Copy(dir, copy_dir, copy_paths);
  if (*backup) {
    if (!dir.empty() && backup_dir.empty() && verify_backup) return RunVerifyBackup(dir);
    if (backup_dir.empty()) {
      return Refuse("store backup", "SRC and DST are needed, or --verify and a backup");
    }
    return RunBackup(dir, backup_dir, since, verify_backup);
  }
  if (*compact) return RunCompact(dir);
  if (*restore) return RunRestore(dir, backup_dir);
  if (*top) {
    const TopForm form = prometheus ? TopForm::kPrometheus
                         : json     ? TopForm::kJson
                                    : TopForm::kTable;
    return RunTop(dir, form, once);
  }
  return RunDump(dir, every_bucket);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
