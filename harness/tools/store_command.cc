#include "harness/tools/store_command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <system_error>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/sys.h"
#include "engine_race/l1/index_root.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"
#include "engine_race/store.h"
#include "harness/measure/table.h"
#include "harness/system/exit_codes.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

int Refuse(const std::string& command, const std::string& name, const Status& status) {
  const std::string why =
      status.code() == Code::kNotFound ? "there is no store" : status.ToString();
  const int code = Refuse("store " + command, name + ": " + why);
  return status.code() == Code::kCorruption ? kExitFailure : code;
}

Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return Status::Ok();
  return Status::FromErrno("write standard output", errno);
}

Status FlushOutput() {
  const bool is_written = std::fflush(stdout) == 0;
  const int error = errno;
  std::clearerr(stdout);
  return is_written ? Status::Ok() : Status::FromErrno("write standard output", error);
}

Options CommandOptions() {
  Options options;
  options.create_if_missing = false;
  options.index_close_bytes = 0;
  options.value_bytes = 0;
  return options;
}

Status ReadIdentity(const std::string& dir, StoreIdentity* identity) {
  UniqueFd directory;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(dir, /*create=*/false, &directory));
  return ReadManifest(directory.get(), identity);
}

bool CommandProgress::Note(uint64_t done_count, uint64_t record_count) {
  if (!line_) line_.emplace(label_, record_count, /*bytes_each=*/0, /*slot_count=*/1);
  const uint64_t before = line_->Done();
  line_->Add(0, done_count - before);
  // Short work ends before the line's next turn to be painted.
  if (before == 0 && done_count > 0) line_->Repaint();
  return true;
}

void CommandProgress::PrintBad(const BadRecord& bad) {
  std::string text = "bad: " + bad.file + ", bucket " + std::to_string(bad.bucket);
  if (bad.slot != BadRecord::kWholeBucket) text += ", slot " + std::to_string(bad.slot);
  text += ": " + bad.what + "\n";
  if (line_) return line_->Print(text);
  std::fputs(text.c_str(), stdout);
}

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

namespace {

KeyFormat FormatOf(std::string_view text) {
  if (text.starts_with("0x")) return KeyFormat::kHex;
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  return is_number ? KeyFormat::kDecimal : KeyFormat::kText;
}

}  // namespace

Status ParseKey(std::string_view text, KeyFormat format, uint64_t* key) {
  if (format == KeyFormat::kAuto) format = FormatOf(text);
  const std::string shown = "'" + std::string(text) + "'";
  if (format == KeyFormat::kText) {
    if (!IsKey(text)) {
      return Status::InvalidArgument(shown + " is no key: 0x and digits, digits, or " +
                                     std::to_string(kKeyBytes) + " bytes of text");
    }
    *key = DecodeKey(text.data());
    return Status::Ok();
  }
  const bool is_hex = format == KeyFormat::kHex;
  if (is_hex && text.starts_with("0x")) text.remove_prefix(2);
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *key, is_hex ? 16 : 10);
  if (error == std::errc::result_out_of_range) {
    return Status::InvalidArgument(shown + " does not fit the 8 bytes of a key");
  }
  if (error != std::errc() || at != end) {
    return Status::InvalidArgument(shown + " is no " + (is_hex ? "hexadecimal" : "decimal") +
                                   " key");
  }
  return Status::Ok();
}

std::string HexOf(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string Escaped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    const bool is_shown = byte >= ' ' && byte <= '~' && byte != '\\';
    text += is_shown ? std::string(1, byte) : "\\x" + HexOf({&byte, 1});
  }
  return text;
}

std::string KeyText(uint64_t key, KeyFormat format) {
  const KeyBytes bytes(key);
  if (format == KeyFormat::kDecimal) return std::to_string(key);
  if (format == KeyFormat::kText) return Escaped(bytes.view());
  return "0x" + HexOf(bytes.view());
}

namespace {

using l1::IndexRoot;

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
  std::printf("values            %u bytes each", geometry.value_bytes());
  if (geometry.slot_bytes() != geometry.value_bytes()) {
    std::printf(", in %u", geometry.slot_bytes());
  }
  std::printf("\n");
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

}  // namespace

int RunDump(const std::string& dir, bool every_bucket) {
  StoreFiles files;
  if (const Status status = OpenStoreFilesToRead(dir, &files, CommandOptions()); !status.ok()) {
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

}  // namespace engine_race::harness
