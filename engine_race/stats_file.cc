#include "engine_race/stats_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "engine_race/base/checksum.h"
#include "engine_race/log/format.h"
#include "engine_race/stats_fields.h"

namespace engine_race {
namespace {

// What every stats file begins with, and then the format version.
constexpr std::string_view kFamily = "engine_race stats ";
constexpr std::string_view kMagic = "engine_race stats 1 ";
// The magic, the size in 8 and the checksum in 16 hexadecimal digits, a space and a line feed.
constexpr size_t kHeaderBytes = kMagic.size() + 8 + 1 + 16 + 1;
constexpr uint64_t kHashSeed = 0x7374617473;
// Far above any file of stats.
constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;
// Space for all lines but those of latencies, with every number at its longest.
constexpr uint64_t kPlainBytes = uint64_t{16} << 10;
// A histogram's line at its longest: a step, a count and two separators each.
constexpr uint64_t kLatencyBytes = 128 + LatencyHistogram::kStepCount * (4 + 20 + 2);
constexpr uint64_t ReservedBytes(bool measured) {
  return kPlainBytes + (measured ? kLatencyKindCount * kLatencyBytes : 0);
}
static_assert(LatencyHistogram::kStepCount <= 10000 && ReservedBytes(true) <= kMaxFileBytes);
// How often a reader tries again that saw a write halfway, a millisecond apart.
constexpr int kMaxTries = 200;
constexpr std::string_view kLatencyPrefix = "latency.";
constexpr std::string_view kErrorPrefix = "error.";

std::string Hex(uint64_t value, size_t digits) {
  std::string text(digits, '0');
  for (size_t i = digits; i > 0; --i, value >>= 4) text[i - 1] = "0123456789abcdef"[value & 15];
  return text;
}

// Takes the part before the separator, or all that is left.
std::string_view Cut(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return part;
}

bool ParseNumber(std::string_view text, uint64_t* value, int base = 10) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc() && at == end;
}

void AddLine(std::string_view name, std::string_view value, std::string* text) {
  text->append(name).append(" ").append(value).append("\n");
}

// "SUM MAX STEP:COUNT STEP:COUNT ..."
std::string EncodeHistogram(const LatencyHistogram& histogram) {
  std::string text = std::to_string(histogram.sum_ns()) + " " + std::to_string(histogram.max_ns());
  for (size_t step = 0; step < LatencyHistogram::kStepCount; ++step) {
    const uint64_t count = histogram.CountAt(step);
    if (count > 0) text += " " + std::to_string(step) + ":" + std::to_string(count);
  }
  return text;
}

bool DecodeHistogram(std::string_view text, LatencyHistogram* histogram) {
  uint64_t sum_ns = 0;
  uint64_t max_ns = 0;
  if (!ParseNumber(Cut(&text, ' '), &sum_ns) || !ParseNumber(Cut(&text, ' '), &max_ns)) {
    return false;
  }
  LatencyHistogram decoded;
  while (!text.empty()) {
    std::string_view pair = Cut(&text, ' ');
    uint64_t step = 0;
    uint64_t count = 0;
    if (!ParseNumber(Cut(&pair, ':'), &step) || step >= LatencyHistogram::kStepCount ||
        !ParseNumber(pair, &count)) {
      return false;
    }
    decoded.AddStep(step, count, 0, 0);
  }
  if (sum_ns > 0) decoded.AddStep(0, 0, sum_ns, max_ns);
  *histogram = std::move(decoded);
  return true;
}

bool DecodeLine(std::string_view name, std::string_view value, PublishedStats* published) {
  StoreStats& stats = published->stats;
  if (name == "io_backend" || name == "write_backend") {
    (name == "io_backend" ? stats.io_backend : stats.write_backend) = value;
    return true;
  }
  if (name.starts_with(kLatencyPrefix)) {
    name.remove_prefix(kLatencyPrefix.size());
    for (size_t i = 0; i < kLatencyKindCount; ++i) {
      if (LatencyKindName(static_cast<LatencyKind>(i)) != name) continue;
      return DecodeHistogram(value, &published->latencies.kinds[i]);
    }
    return true;
  }
  uint64_t number = 0;
  const bool is_number = ParseNumber(value, &number);
  if (name.starts_with(kErrorPrefix)) {
    uint64_t code = 0;
    if (!is_number || !ParseNumber(name.substr(kErrorPrefix.size()), &code)) return false;
    if (code < kCodeCount) stats.error_counts[code] = number;
    return true;
  }
  const std::pair<std::string_view, uint64_t*> own[] = {
      {"sequence", &published->sequence},     {"interval_ms", &published->interval_ms},
      {"process_id", &published->process_id}, {"taken_at_ms", &published->taken_at_ms},
      {"first_key", &stats.key_range.first},  {"last_key", &stats.key_range.last}};
  for (const auto& [own_name, to] : own) {
    if (own_name != name) continue;
    *to = number;
    return is_number;
  }
  if (name == "latencies_measured") {
    published->latencies.measured = number != 0;
    return is_number;
  }
  for (const StatsField& field : StatsFields()) {
    if (field.name != name || field.set == nullptr) continue;
    field.set(number, &stats);
    return is_number;
  }
  return true;
}

Status Damaged() { return Status::Corruption(std::string(kStatsFileName) + " is damaged"); }

// Whether a file was begun as a stats file. After a power loss a file may have its length and no
// data: then it is full of zero bytes.
Status WasBegunAsStats(int fd, bool* is_stats) {
  // One byte more than the largest such file has.
  std::string text(ReservedBytes(/*measured=*/true) + 1, '\0');
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(fd, text.data(), text.size(), 0, &read_bytes));
  const bool is_small_enough = read_bytes < text.size();
  text.resize(read_bytes);
  const bool is_zeros = text.find_first_not_of('\0') == std::string::npos;
  *is_stats = kFamily.starts_with(std::string_view(text).substr(0, kFamily.size())) ||
              (is_zeros && is_small_enough);
  return Status::Ok();
}

// Ok when `name` is free, or of a stats file, be it one whose first write was cut short.
Status CheckIsReplaceable(int dir_fd, const char* name) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, name, &exists));
  if (!exists) return Status::Ok();
  const auto foreign = [name] {
    return Status::InvalidArgument(std::string(name) + " is not a stats file");
  };
  UniqueFd found;
  // Opening a pipe must not wait for a writer.
  const Status opened = sys::OpenAt(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &found);
  if (opened.code() == Code::kCorruption) return foreign();
  ENGINE_RACE_RETURN_IF_ERROR(opened);
  bool is_regular = false;
  uint64_t link_count = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(found.get(), &is_regular, &link_count));
  if (!is_regular) return foreign();
  bool is_stats = false;
  ENGINE_RACE_RETURN_IF_ERROR(WasBegunAsStats(found.get(), &is_stats));
  return is_stats ? Status::Ok() : foreign();
}

// Whether a process has the store in the directory open for writing.
Status IsOpenSomewhere(int dir_fd, bool* is_open) {
  UniqueFd lock;
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenAt(dir_fd, format::kLockName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &lock));
  return sys::HasExclusiveLock(lock.get(), is_open);
}

}  // namespace

std::string EncodeStats(const PublishedStats& published) {
  const StoreStats& stats = published.stats;
  std::string text;
  const auto add = [&text](std::string_view name, uint64_t value) {
    AddLine(name, std::to_string(value), &text);
  };
  add("sequence", published.sequence);
  add("interval_ms", published.interval_ms);
  add("process_id", published.process_id);
  add("taken_at_ms", published.taken_at_ms);
  add("latencies_measured", published.latencies.measured ? 1 : 0);
  for (const StatsField& field : StatsFields()) {
    if (field.set != nullptr) add(field.name, field.get(stats));
  }
  for (size_t code = 0; code < kCodeCount; ++code) {
    add(std::string(kErrorPrefix) + std::to_string(code), stats.error_counts[code]);
  }
  add("first_key", stats.key_range.first);
  add("last_key", stats.key_range.last);
  AddLine("io_backend", stats.io_backend, &text);
  AddLine("write_backend", stats.write_backend, &text);
  for (size_t i = 0; i < kLatencyKindCount; ++i) {
    const LatencyHistogram& histogram = published.latencies.kinds[i];
    if (histogram.count() == 0) continue;
    std::string name(kLatencyPrefix);
    AddLine(name.append(LatencyKindName(static_cast<LatencyKind>(i))), EncodeHistogram(histogram),
            &text);
  }
  const uint64_t hash = Hash64(text.data(), text.size(), kHashSeed);
  return std::string(kMagic) + Hex(text.size(), 8) + " " + Hex(hash, 16) + "\n" + text;
}

Status DecodeStats(std::string_view text, PublishedStats* published) {
  *published = PublishedStats();
  if (text.starts_with(kFamily) && !text.starts_with(kMagic)) {
    std::string_view rest = text.substr(kFamily.size());
    const std::string_view version = Cut(&rest, ' ');
    uint64_t number = 0;
    if (!rest.empty() && ParseNumber(version, &number)) {
      return Status::NotSupported(std::string(kStatsFileName) + " is of format version " +
                                  std::string(version) + ", which this build cannot read");
    }
  }
  if (!text.starts_with(kMagic) || text.size() < kHeaderBytes || text[kHeaderBytes - 1] != '\n') {
    return Damaged();
  }
  std::string_view header = text.substr(kMagic.size(), kHeaderBytes - kMagic.size() - 1);
  uint64_t size_bytes = 0;
  uint64_t hash = 0;
  if (!ParseNumber(Cut(&header, ' '), &size_bytes, 16) || !ParseNumber(header, &hash, 16)) {
    return Damaged();
  }
  text.remove_prefix(kHeaderBytes);
  if (text.size() < size_bytes) return Damaged();
  // The rest is of an earlier, longer text.
  text = text.substr(0, size_bytes);
  if (Hash64(text.data(), text.size(), kHashSeed) != hash) return Damaged();
  while (!text.empty()) {
    std::string_view line = Cut(&text, '\n');
    const std::string_view name = Cut(&line, ' ');
    if (!DecodeLine(name, line, published)) return Damaged();
  }
  return Status::Ok();
}

Status StatsFile::Create(UniqueFd directory, mode_t file_mode, const PublishedStats& first,
                         StatsFile* file) {
  StatsFile made;
  const int dir_fd = directory.get();
  ENGINE_RACE_RETURN_IF_ERROR(CheckIsReplaceable(dir_fd, kStatsFileName));
  // A process that was killed before the rename below leaves its temporary file behind.
  ENGINE_RACE_RETURN_IF_ERROR(CheckIsReplaceable(dir_fd, kStatsTempName));
  ENGINE_RACE_RETURN_IF_ERROR(sys::Unlink(dir_fd, kStatsTempName));
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(
      dir_fd, kStatsTempName, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode, &made.file_));
  // Readers find the name only on a file that is locked and whole.
  Status status = sys::LockFile(made.file_.get(), sys::LockKind::kExclusive);
  if (status.ok()) status = made.Write(first);
  // Later writes are not torn by a full disk, where the file system can reserve space.
  bool is_reserved = false;
  if (status.ok()) {
    status = sys::Fallocate(made.file_.get(), /*keep_size=*/true, 0,
                            ReservedBytes(first.latencies.measured), &is_reserved);
  }
  if (status.ok()) status = sys::Rename(dir_fd, kStatsTempName, kStatsFileName);
  if (!status.ok()) {
    // The store does without its file in any case.
    static_cast<void>(sys::Unlink(dir_fd, kStatsTempName).ok());
    return status;
  }
  made.directory_ = std::move(directory);
  *file = std::move(made);
  return Status::Ok();
}

StatsFile::~StatsFile() {
  if (!directory_.valid()) return;
  bool is_own = false;
  if (sys::NamesFile(directory_.get(), kStatsFileName, file_.get(), &is_own).ok() && is_own) {
    static_cast<void>(sys::Unlink(directory_.get(), kStatsFileName).ok());
  }
  // Unlocking tells readers that the store has ended. Closing alone would not: a forked child
  // shares the open file and its lock.
  sys::UnlockFile(file_.get());
}

Status StatsFile::Write(const PublishedStats& published) {
  const std::string text = EncodeStats(published);
  return sys::PwriteFull(file_.get(), text.data(), text.size(), 0);
}

Status StatsReader::Open(const std::string& dir, StatsReader* reader) {
  UniqueFd directory;
  const Status opened = sys::OpenDirectory(dir, /*create=*/false, &directory);
  bool exists = false;
  if (opened.ok()) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(directory.get(), format::kManifestName, &exists));
  } else if (opened.code() != Code::kNotFound) {
    return opened;
  }
  if (!exists) return Status(Code::kNotFound, "there is no store");
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(directory.get(), kStatsFileName, &exists));
  bool is_offered = false;
  if (exists) {
    // Opening a pipe must not wait for a writer.
    ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(directory.get(), kStatsFileName,
                                            O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &reader->file_));
    bool is_regular = false;
    uint64_t link_count = 0;
    ENGINE_RACE_RETURN_IF_ERROR(sys::RegularFile(reader->file_.get(), &is_regular, &link_count));
    if (!is_regular) return Status::Corruption(std::string(kStatsFileName) + " is no file");
    ENGINE_RACE_RETURN_IF_ERROR(sys::HasExclusiveLock(reader->file_.get(), &is_offered));
  }
  if (is_offered) {
    reader->directory_ = std::move(directory);
    return Status::Ok();
  }
  bool is_open = false;
  ENGINE_RACE_RETURN_IF_ERROR(IsOpenSomewhere(directory.get(), &is_open));
  if (!is_open) return Status(Code::kIncomplete, "no process has the store open");
  return Status::NotSupported(
      "a process has the store open, but does not offer its stats: open the store with "
      "Options::stats_interval_ms = 1000 (by name: stats_interval_ms)");
}

// A forked child keeps the lock when its parent is killed. The next opening then gives the name to
// a new file.
Status StatsReader::HasEnded(bool* has_ended) const {
  bool is_locked = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::HasExclusiveLock(file_.get(), &is_locked));
  bool is_named = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::NamesFile(directory_.get(), kStatsFileName, file_.get(), &is_named));
  *has_ended = !is_locked || !is_named;
  return Status::Ok();
}

Status StatsReader::ReadOnce(PublishedStats* published) const {
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::FileSize(file_.get(), &size_bytes));
  if (size_bytes > kMaxFileBytes) return Damaged();
  std::string text(size_bytes, '\0');
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Pread(file_.get(), text.data(), text.size(), 0, &read_bytes));
  return DecodeStats(std::string_view(text).substr(0, read_bytes), published);
}

Status StatsReader::Read(PublishedStats* published, bool* has_ended) const {
  for (int i = 0; i < kMaxTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // Before the content is read: so the content of an ended store is its last.
    ENGINE_RACE_RETURN_IF_ERROR(HasEnded(has_ended));
    Status read = ReadOnce(published);
    if (read.code() != Code::kCorruption) return read;
    if (*has_ended) {
      return Status(Code::kIncomplete, "the store's process ended while it wrote its stats");
    }
  }
  return Status(Code::kIncomplete, std::string(kStatsFileName) +
                                       " is not whole: the store's last write of it has failed");
}

}  // namespace engine_race
