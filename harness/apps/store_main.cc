// Verifies, copies, backs up, compacts or describes a closed store, restores one from a backup, and
// follows a running one.
//
// No commands but `backup` and `compact` change the store: they open it, which recovers it, and
// sync it. All but `top` refuse a store that a process has open for writing.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/store.h"
#include "harness/measure/progress.h"
#include "harness/measure/table.h"
#include "harness/system/command_line.h"
#include "harness/system/exit_codes.h"
#include "harness/tools/store_backup.h"
#include "harness/tools/store_top.h"

namespace engine_race::harness {
namespace {

using l1::IndexRoot;

int Refuse(const char* what, const std::string& dir, const Status& status) {
  const std::string why =
      status.code() == Code::kNotFound ? "there is no store" : status.ToString();
  std::fprintf(stderr, "store %s: %s: %s\n", what, dir.c_str(), why.c_str());
  return kExitRefused;
}

std::string Count(uint64_t count) { return std::to_string(count); }

void PrintManifest(const StoreFiles& files) {
  const StoreIdentity& identity = files.identity;
  const Geometry& geometry = identity.geometry;
  std::printf("store id          %016" PRIx64 "\n", identity.store_id);
  std::printf("format version    %u\n", format::kFormatVersion);
  std::printf("buckets           %u, of at most %" PRIu64 " records\n", geometry.bucket_count,
              geometry.bucket_capacity_records);
  std::printf("keys              %s\n", ToString(geometry.keys()).c_str());
  std::printf("files             %u of keys, and as many value files or devices\n",
              files.slots.file_count());
  for (size_t i = 0; i < identity.paths.size(); ++i) {
    std::printf("path %-12zu %s: %s\n", i, identity.paths[i].c_str(),
                files.slots.Describe(files.slots.paths()[i]).c_str());
  }
  std::printf("groups            %u bytes of values, %u bytes of keys\n",
              geometry.value_group_bytes, geometry.key_group_bytes);
}

void PrintTotals(const StoreFiles& files, const std::vector<BucketState>& states) {
  const uint32_t page_cache_id = PageCacheId(files);
  uint64_t record_count = 0;
  uint64_t synced_total = 0;
  uint64_t staged_count = 0;
  uint64_t damaged_count = 0;
  uint64_t doubtful_count = 0;
  for (const BucketState& state : states) {
    if (state.damaged) {
      ++damaged_count;
      continue;
    }
    record_count += state.record_count;
    synced_total += state.synced_watermark;
    staged_count += state.record_count - std::min(state.logged_value_watermark, state.record_count);
    if (state.page_cache_id != page_cache_id) ++doubtful_count;
  }
  std::printf("records           %" PRIu64 ", overwritten ones and tombstones included\n",
              record_count);
  std::printf("synced            %" PRIu64 "\n", synced_total);
  std::printf("staged            %" PRIu64 " values\n", staged_count);
  if (damaged_count > 0) std::printf("DAMAGED           %" PRIu64 " buckets\n", damaged_count);
  if (doubtful_count > 0) {
    std::printf("doubtful          %" PRIu64
                " buckets: written before the last mount or boot, or a flush failed; the next "
                "opening verifies what is not synced\n",
                doubtful_count);
  }
}

// Prints fill and skew of the readable buckets.
void PrintFill(const std::vector<BucketState>& states) {
  std::vector<uint64_t> fills;
  for (const BucketState& state : states) {
    if (!state.damaged) fills.push_back(state.record_count);
  }
  if (fills.empty()) return;
  std::sort(fills.begin(), fills.end());
  const double total = std::accumulate(fills.begin(), fills.end(), 0.0);
  const double mean = total / static_cast<double>(fills.size());
  double squares = 0;
  for (const uint64_t fill : fills) squares += std::pow(static_cast<double>(fill) - mean, 2);
  const size_t top = std::max<size_t>(fills.size() / 100, 1);
  const double top_sum =
      std::accumulate(fills.end() - static_cast<std::ptrdiff_t>(top), fills.end(), 0.0);
  const auto quantile = [&fills](double q) {
    return fills[static_cast<size_t>(q * static_cast<double>(fills.size() - 1))];
  };
  std::printf("records a bucket  min %" PRIu64 ", median %" PRIu64 ", 99%% %" PRIu64
              ", max %" PRIu64 ", mean %.1f, deviation %.1f\n",
              fills.front(), quantile(0.5), quantile(0.99), fills.back(), mean,
              std::sqrt(squares / static_cast<double>(fills.size())));
  std::printf("empty buckets     %td\n",
              std::upper_bound(fills.begin(), fills.end(), uint64_t{0}) - fills.begin());
  if (total > 0) {
    std::printf(
        "skew              the fullest holds %.2f times the mean; the fullest %zu hold %.1f%%\n",
        static_cast<double>(fills.back()) / mean, top, 100 * top_sum / total);
  }
}

// How much of the store the index on disk covers, as its root says.
void PrintIndex(const Status& loaded, const IndexRoot& root,
                const std::vector<BucketState>& states) {
  if (!loaded.ok()) {
    const bool is_missing = loaded.code() == Code::kNotFound;
    std::printf("index on disk    %s\n", is_missing ? "none" : loaded.ToString().c_str());
    return;
  }
  uint64_t covered_count = 0;
  uint64_t bucket_count = 0;
  uint64_t key_count = 0;
  uint64_t bytes = 0;
  for (size_t bucket = 0; bucket < states.size(); ++bucket) {
    covered_count += root.coverages[bucket].record_count;
    bucket_count += root.coverages[bucket].record_count > 0;
  }
  for (const auto& extent : root.extents) {
    key_count += extent.record_count;
    bytes += format::IndexExtentBytesOf(extent.record_count);
  }
  std::printf("index on disk    %zu extents, %" PRIu64 " keys, %" PRIu64 " bytes\n",
              root.extents.size(), key_count, bytes);
  std::printf("                 covers %" PRIu64 " records of %" PRIu64 " buckets\n", covered_count,
              bucket_count);
}

void PrintBuckets(const std::vector<BucketState>& states, const IndexRoot& root) {
  Table table({"bucket", "records", "synced", "values in log", "keys in log", "extents",
               "keys in them", "covered"});
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    const BucketState& state = states[bucket];
    if (state.damaged) {
      table.AddRow({Count(bucket), "damaged", "", "", "", "", "", ""});
      continue;
    }
    if (state.record_count == 0) continue;
    const bool has_root = !root.coverages.empty();
    uint64_t key_count = 0;
    uint64_t extent_count = 0;
    for (const auto& extent : root.ExtentsOf(bucket)) {
      key_count += extent.record_count;
      ++extent_count;
    }
    table.AddRow({Count(bucket), Count(state.record_count), Count(state.synced_watermark),
                  Count(state.LoggedValueCount()), Count(state.LoggedKeyCount()),
                  Count(extent_count), Count(key_count),
                  Count(has_root ? root.coverages[bucket].record_count : 0)});
  }
  std::printf("\n%s", table.ToString().c_str());
}

std::string BadText(const BadRecord& bad) {
  std::string text = "bad: " + bad.file + ", bucket " + Count(bad.bucket);
  if (bad.slot != BadRecord::kWholeBucket) text += ", slot " + Count(bad.slot);
  return text + ": " + bad.what + "\n";
}

// Shows how far a command is that reads every record, and prints the bad ones. One call at a time.
class Reading {
 public:
  explicit Reading(const std::string& what) : label_(what + " ") {}

  void NoteProgress(uint64_t done_count, uint64_t record_count) {
    if (!line_) line_.emplace(label_, record_count, kRecordBytes, /*slot_count=*/1);
    const uint64_t before = line_->Done();
    line_->Add(0, done_count - before);
    // Short work ends before the line's next turn to be painted.
    if (before == 0 && done_count > 0) line_->Repaint();
  }
  void PrintBad(const BadRecord& bad) {
    if (line_) return line_->Print(BadText(bad));
    std::fputs(BadText(bad).c_str(), stdout);
  }

 private:
  static constexpr uint64_t kRecordBytes = kKeyBytes + kValueBytes;

  const std::string label_;
  std::optional<Progress> line_;  // once the number of records is known
};

using ReadFn = std::function<Status(VerifyReport* report, const BadRecordFn& on_bad,
                                    const ProgressFn& on_progress)>;

// Calls `read`, which is Store::Verify or Store::Copy. Prints the totals and returns the exit code.
int ReadAll(const char* what, const char* done, const std::string& dir, const ReadFn& read) {
  const auto began = std::chrono::steady_clock::now();
  VerifyReport report;
  Status status;
  {
    Reading reading(what);
    status = read(
        &report, [&](const BadRecord& bad) { reading.PrintBad(bad); },
        [&](uint64_t done_count, uint64_t count) {
          reading.NoteProgress(done_count, count);
          return true;
        });
  }
  if (!status.ok() && report.bad_count == 0) return Refuse(what, dir, status);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%" PRIu64 " records %s in %.1f s, %" PRIu64 " bad", report.record_count,
              status.ok() ? done : "looked at", seconds, report.bad_count);
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

// Prints the manifest and the fill and skew of the buckets. With `every_bucket` also prints a line
// for each bucket that has records.
int Dump(const std::string& dir, bool every_bucket) {
  StoreFiles files;
  if (const Status status = OpenStoreFilesToRead(dir, &files); !status.ok()) {
    return Refuse("dump", dir, status);
  }
  std::vector<BucketState> states;
  if (const Status status = Staging(files).ReadCounts(&states); !status.ok()) {
    return Refuse("dump", dir, status);
  }
  PrintManifest(files);
  PrintTotals(files, states);
  PrintFill(states);
  IndexRoot root;
  const Status loaded = l1::LoadIndexRoot(files.directory.get(), files.identity.ids(),
                                          files.identity.geometry.bucket_count, &root);
  PrintIndex(loaded, root, states);
  if (every_bucket) PrintBuckets(states, root);
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Verifies, copies, backs up, compacts or dumps a closed store, restores one from a backup, "
      "and follows a running one.");
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
  if (const auto code = ParseCommandLine("store", argc, argv, &app)) return *code;
  if (*verify) return Verify(dir);
  if (*copy) return Copy(dir, copy_dir, copy_paths);
  if (*backup) {
    if (!dir.empty() && backup_dir.empty() && verify_backup) return RunVerifyBackup(dir);
    if (backup_dir.empty()) {
      std::fprintf(stderr, "store backup: SRC and DST are needed, or --verify and a backup\n");
      return kExitRefused;
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
  return Dump(dir, every_bucket);
}

}  // namespace
}  // namespace engine_race::harness

int main(int argc, char** argv) { return engine_race::harness::Main(argc, argv); }
