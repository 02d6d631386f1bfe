#include "harness/tools/store_command.h"

#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <system_error>

#include "engine_race/base/key.h"
#include "engine_race/base/sys.h"
#include "engine_race/store.h"
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

}  // namespace engine_race::harness
