#include "harness/bench/session.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine_race/log/directory_lock.h"
#include "engine_race/log/format.h"
#include "engine_race/log/manifest.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/measure/table.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

namespace {

namespace fs = std::filesystem;

constexpr char kNoteName[] = "bench-store.json";
constexpr mode_t kNoteMode = 0644;

bool IsNote(const std::string& name) { return name == kNoteName; }

// fio leaves files when it is killed.
bool IsOurs(const std::string& name) {
  return IsNote(name) || name.starts_with("fio-") || IsStoreFile(name);
}

// Names the same directory from every working directory, and by every symlink to it.
std::string CanonicalName(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path canonical = fs::weakly_canonical(absolute, error);
  std::string name = (error ? absolute : canonical).lexically_normal().string();
  if (name.size() > 1 && name.ends_with('/')) name.pop_back();
  return name;
}

std::string NoteText(const std::string& store, const std::vector<std::string>& value_paths) {
  const auto any_bytes = nlohmann::json::error_handler_t::replace;
  return nlohmann::json({{"store", store}, {"value_paths", value_paths}})
             .dump(-1, ' ', false, any_bytes) +
         "\n";
}

std::string ReadNote(const std::string& path) {
  return LoadText(fs::path(path) / kNoteName).value_or("");
}

bool HasStoreFiles(const std::string& dir) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    if (IsStoreFile(entry.path().filename().string())) return true;
  }
  return false;
}

// A raw device has no note. The engine itself refuses a device that holds anything.
bool IsDevice(const std::string& path) {
  std::error_code error;
  return fs::is_block_file(path, error);
}

// Opens the note in an open directory, or makes an empty one, and takes its lock. kIOError when
// another bench has the lock, or has removed the note meanwhile.
Status LockNote(int dir_fd, UniqueFd* note) {
  UniqueFd file;
  bool is_named = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, kNoteName, O_RDWR | O_CREAT, kNoteMode, &file));
  ENGINE_RACE_RETURN_IF_ERROR(sys::LockFile(file.get(), sys::LockKind::kExclusive));
  ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(dir_fd, kNoteName, file.get(), &is_named));
  if (!is_named) return Status::IOError(std::string(kNoteName) + " was removed meanwhile");
  *note = std::move(file);
  return Status::Ok();
}

// Makes the directory and its note, or finds this note there. A bench that was killed here has left
// an empty note.
Status ClaimValuePath(const std::string& path, const std::string& text) {
  UniqueFd directory;
  UniqueFd note;
  ENGINE_RACE_RETURN_IF_ERROR(sys::OpenDirectory(path, /*create=*/true, &directory));
  ENGINE_RACE_RETURN_IF_ERROR(LockNote(directory.get(), &note));
  const std::string found = ReadNote(path);
  if (found == text) return Status::Ok();
  if (found.empty()) return sys::PwriteFull(note.get(), text.data(), text.size(), 0);
  return Status::InvalidArgument(std::string(kNoteName) + " names another store: left alone");
}

// Takes the lock that an open store holds, where there is one.
Status LockStore(const std::string& path, DirectoryLock* lock) {
  UniqueFd directory;
  const Status opened = sys::OpenDirectory(path, /*create=*/false, &directory);
  if (opened.code() == Code::kNotFound) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(opened);
  bool has_lock = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(directory.get(), format::kLockName, &has_lock));
  return has_lock ? DirectoryLock::TakeToWrite(directory.get(), kNoteMode, lock) : Status::Ok();
}

// The paths that the store's manifest names.
std::vector<std::string> PathsOfStore(const std::string& dir) {
  UniqueFd directory;
  StoreIdentity identity;
  if (!sys::OpenDirectory(dir, /*create=*/false, &directory).ok()) return {};
  return ReadManifest(directory.get(), &identity).ok() ? identity.paths
                                                       : std::vector<std::string>();
}

}  // namespace

StoreDir::~StoreDir() {
  if (!is_fresh_ || !note_.valid()) return;
  if (RemoveStore().ok()) DropNotes();
}

Status StoreDir::Prepare(const std::string& path, const std::vector<std::string>& value_paths) {
  std::vector<std::string> names;
  names.reserve(value_paths.size());
  for (const std::string& value_path : value_paths) names.push_back(CanonicalName(value_path));
  const std::string note = path.empty() ? std::string() : ReadNote(path);
  if (!note.empty()) {
    const nlohmann::json noted = nlohmann::json::parse(note, nullptr, /*allow_exceptions=*/false);
    if (!noted.is_object() ||
        noted.value("value_paths", nlohmann::json()) != nlohmann::json(names)) {
      return Status::InvalidArgument(path + " has a store with other value paths");
    }
  }
  // A bench that was killed before it wrote its note has left an empty one, and nothing else.
  const Status prepared = dir_.Prepare(path, note.empty() ? IsNote : IsOurs);
  if (!prepared.ok()) return Status::InvalidArgument(prepared.message());
  path_ = CanonicalName(dir_.path());
  const std::string text = NoteText(path_, names);
  for (const std::string& name : names) {
    const std::string value_note = ReadNote(name);
    if (value_note == text || (value_note.empty() && !HasStoreFiles(name))) continue;
    return Status::InvalidArgument(name + " has files or the note of another store: left alone");
  }
  text_ = text;
  value_paths_ = std::move(names);
  is_fresh_ = path.empty();
  return Status::Ok();
}

Status StoreDir::Adopt(const std::string& path, const std::vector<std::string>& value_paths) {
  if (path.empty()) return Status::InvalidArgument("an existing store needs --db");
  if (!HasStoreFiles(path)) return Status::InvalidArgument("there is no store in " + path);
  path_ = CanonicalName(path);
  // A store knows its own paths, unless they have moved.
  for (const std::string& name : value_paths.empty() ? PathsOfStore(path) : value_paths) {
    value_paths_.push_back(CanonicalName(name));
  }
  return Status::Ok();
}

Status StoreDir::Empty() {
  Status status = TakeNote();
  if (status.ok()) status = ClaimValuePaths();
  if (status.ok()) status = RemoveStore();
  if (status.ok()) status = WriteNote();
  // An empty note says that the directory was empty before.
  if (!status.ok() && note_.valid() && ReadNote(path_).empty()) DropNotes();
  return status;
}

// A bench holds the lock of the note as long as it runs.
Status StoreDir::TakeNote() {
  if (note_.valid()) return Status::Ok();
  UniqueFd directory;
  Status status = sys::OpenDirectory(path_, /*create=*/false, &directory);
  if (status.ok()) status = LockNote(directory.get(), &note_);
  return status.Prefixed(path_ + "/" + kNoteName + ": in use by another bench, or not writable: ");
}

Status StoreDir::ClaimValuePaths() const {
  for (const std::string& value_path : value_paths_) {
    if (IsDevice(value_path)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(ClaimValuePath(value_path, text_).Prefixed(value_path + ": "));
  }
  return Status::Ok();
}

void StoreDir::DropNotes() {
  std::error_code error;
  for (const std::string& value_path : value_paths_) {
    const std::string note = ReadNote(value_path);
    if (note == text_ && !HasStoreFiles(value_path)) {
      fs::remove(fs::path(value_path) / kNoteName, error);
    }
  }
  // The lock ends after the name.
  fs::remove(fs::path(path_) / kNoteName, error);
  note_.Reset();
}

Status StoreDir::WriteNote() {
  Status status = sys::Truncate(note_.get(), 0);
  if (status.ok()) status = sys::PwriteFull(note_.get(), text_.data(), text_.size(), 0);
  return status.Prefixed(path_ + ": cannot write " + kNoteName + ": ");
}

std::optional<uint64_t> StoreDir::AllocatedBytes() const {
  if (std::any_of(value_paths_.begin(), value_paths_.end(), IsDevice)) return std::nullopt;
  uint64_t bytes = harness::AllocatedBytes(path_);
  for (const std::string& value_path : value_paths_) bytes += harness::AllocatedBytes(value_path);
  return bytes;
}

Status StoreDir::RemoveStore() const {
  std::vector<std::string> dirs = {path_};
  for (const std::string& value_path : value_paths_) {
    if (!IsDevice(value_path)) dirs.push_back(value_path);
  }
  // All locks before the first removal.
  std::vector<DirectoryLock> locks(dirs.size());
  for (size_t i = 0; i < dirs.size(); ++i) {
    const Status status = LockStore(dirs[i], &locks[i]);
    ENGINE_RACE_RETURN_IF_ERROR(status.Prefixed(dirs[i] + ": the store is in use: "));
  }
  for (const std::string& dir : dirs) RemoveFiles(dir, IsStoreFile);
  return Status::Ok();
}

namespace {

// More than any disk holds, and far from overflow in bytes.
constexpr double kMostRecords = 0x1p50;

double ExpectedWrites(const BenchConfig& config, const BenchTraits& traits) {
  if (traits.divides_writes) return static_cast<double>(WritesOf(config));
  const auto of_thread = static_cast<double>(ReadsOfThread(config));
  // The writer beside readers: about as many writes as one reader reads.
  if (traits.has_writer) return of_thread;
  return of_thread * config.thread_count * WritePercent(config) / 100;
}

}  // namespace

uint64_t MostRecords(const BenchConfig& config, const std::vector<std::string>& steps) {
  double records = 0;
  double most = 0;
  bool has_ycsb = false;
  for (const std::string& step : steps) {
    const BenchTraits* const traits = FindBenchmark(step);
    if (traits == nullptr) continue;
    BenchConfig of_step = config;
    of_step.benchmark = step;
    if (traits->is_fill) {
      records = 0;
      has_ycsb = false;
    }
    // A workload of YCSB loads its records when they are missing.
    if (traits->is_ycsb && !traits->is_fill && !has_ycsb) {
      records += static_cast<double>(config.num);
    }
    has_ycsb = has_ycsb || traits->is_ycsb;
    records += ExpectedWrites(of_step, *traits);
    most = std::max(most, records);
  }
  return static_cast<uint64_t>(std::min(most, kMostRecords));
}

std::string WhyNoRoomFor(uint64_t records, uint32_t record_value_bytes, const std::string& dir,
                         const std::vector<std::string>& value_paths) {
  const auto need_of = [](const std::string& path, uint64_t bytes) {
    return SpaceNeed{path, bytes, path.empty() ? 0 : AllocatedBytes(path)};
  };
  const uint64_t value_bytes = records * record_value_bytes;
  std::vector<SpaceNeed> needs = {need_of(
      dir, StoreBytes(records, record_value_bytes) - (value_paths.empty() ? 0 : value_bytes))};
  // The values are striped over the paths.
  for (const std::string& path : value_paths) {
    needs.push_back(need_of(path, value_bytes / value_paths.size()));
  }
  return WhyNoRoom(needs);
}

}  // namespace engine_race::harness
