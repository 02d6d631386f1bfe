#include "engine_race/log/directory_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/process.h"
#include "engine_race/log/format.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/path_marker.h"

namespace engine_race {
namespace {

// The text of a lock file: the name of a process, then zeros, the number of its opening, and what
// it has the lock for. Longer names of programs are cut off.
constexpr size_t kOwnerBytes = 128;
constexpr std::string_view kRecoveryMark = "recovery";
constexpr std::string_view kCompleteMark = "complete";
constexpr size_t kIdOffset = kOwnerBytes - kCompleteMark.size() - sizeof(uint64_t);
static_assert(kRecoveryMark.size() == kCompleteMark.size());

// What the holder has written, or nothing.
std::string OwnerText(const io::File& file) {
  std::string text(kOwnerBytes, '\0');
  size_t read_bytes = 0;
  if (!file.ReadSome(text.data(), text.size(), 0, &read_bytes).ok()) return "";
  text.resize(read_bytes);
  return text;
}

// Says which process holds the lock of `file`, as far as is known. This process was refused it.
std::string HolderOf(const io::File& file) {
  bool by_writer = false;
  if (!sys::HasExclusiveLock(file.fd(), &by_writer).ok()) return "its lock is held";
  if (!by_writer) return "it is being read, by a read-only opening, a verification or a copy";
  const std::string text = OwnerText(file);
  const ProcessName holder = ParseProcessName(text.substr(0, text.find('\0')));
  if (holder.number == 0) return "its lock is held";
  const std::string process =
      "process " + std::to_string(holder.number) + " (" + holder.program + ")";
  if (holder.pid_namespace != ThisProcess().pid_namespace) {
    return process + " of another container or machine has it";
  }
  if (holder.number == ThisProcess().number) return "this process has it";
  if (IsRunning(holder.number)) return process + " has it";
  return "its lock is held, perhaps by a forked child of " + process + ", which has ended";
}

// Takes the lock to read when no recovery holds it any more. A holder names itself after it has
// taken the lock, and takes its name away before it drops it. So one without a name is given time.
Status LockPatiently(const io::File& file) {
  constexpr uint32_t kNamelessTries = 10;
  const auto end = std::chrono::steady_clock::now() + DirectoryLock::kPatience;
  uint32_t nameless_count = 0;
  while (true) {
    Status locked = sys::LockFile(file.fd(), sys::LockKind::kShared);
    if (locked.error() != EAGAIN) return locked;
    const std::string text = OwnerText(file);
    nameless_count = text.empty() ? nameless_count + 1 : 0;
    const bool may_end =
        text.empty() ? nameless_count <= kNamelessTries : text.ends_with(kRecoveryMark);
    if (!may_end || std::chrono::steady_clock::now() >= end) return locked;
    std::this_thread::sleep_for(DirectoryLock::kRetryInterval);
  }
}

// Adds the name and the holder of `file` to a failure to lock it.
Status Refused(const io::File& file, const Status& status) {
  if (status.ok()) return Status::Ok();
  const std::string name = std::string(format::kLockName) + ": ";
  if (status.code() != Code::kIOError) return status.Prefixed(name);
  return status.Reworded(status.code(), name + "the store is open elsewhere: " + HolderOf(file));
}

// Whether a store or path stands in the directory. An opening may have made one and failed
// afterwards; the store would not open again without its lock file.
bool NeedsLockFile(int dir_fd) {
  StoreIdentity identity;
  format::PathMarker marker;
  return ReadManifest(dir_fd, &identity).ok() || ReadPathMarker(dir_fd, &marker).ok();
}

}  // namespace

bool DirectoryLock::TakenHere() const { return owner_ == ::getpid(); }

DirectoryLock::~DirectoryLock() {
  if (!TakenHere()) return;
  if (made_in_.valid()) {
    // While it is still locked. A file that cannot be removed does no harm.
    static_cast<void>(Guarded([this] {
      return NeedsLockFile(made_in_.get()) ? Status::Ok()
                                           : sys::Unlink(made_in_.get(), format::kLockName);
    }));
  }
  if (is_named_ && file_.fd() >= 0) {
    static_cast<void>(Guarded([this] { return file_.Truncate(0); }));
  }
  // Closing a descriptor alone would leave the lock to forked children.
  if (file_.fd() >= 0) sys::UnlockFile(file_.fd());
}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  const DirectoryLock former(std::move(*this));
  file_ = std::move(other.file_);
  owner_ = other.owner_;
  is_named_ = other.is_named_;
  made_in_ = std::move(other.made_in_);
  return *this;
}

Status DirectoryLock::TakeToWrite(int dir_fd, mode_t file_mode, DirectoryLock* lock,
                                  Purpose purpose) {
  // Each further try means that another opening was refused meanwhile and has removed its file.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    bool exists = false;
    UniqueFd directory;
    io::File file;
    ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
    ENGINE_RACE_RETURN_IF_ERROR(sys::OpenAt(dir_fd, ".", O_PATH | O_DIRECTORY, 0, &directory));
    ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, format::kLockName, io::Access::kCreate,
                                               io::Caching::kBuffered, &file, file_mode));
    const Status locked = sys::LockFile(file.fd(), sys::LockKind::kExclusive);
    if (locked.code() == Code::kNotSupported && !exists) {
      static_cast<void>(sys::Unlink(dir_fd, format::kLockName).ok());
    }
    ENGINE_RACE_RETURN_IF_ERROR(Refused(file, locked));
    bool same = false;
    ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(dir_fd, format::kLockName, file.fd(), &same));
    if (!same) continue;
    lock->file_ = std::move(file);
    lock->owner_ = ::getpid();
    // A failure is no matter: a full disk may have no room for the name.
    static_cast<void>(lock->NameOwner(purpose == Purpose::kRecovery ? kRecoveryMark : "", 0));
    if (!exists) lock->made_in_ = std::move(directory);
    return Status::Ok();
  }
  return Status::IOError("manifest_lock comes and goes: the store is being opened elsewhere");
}

Status DirectoryLock::TakeToRead(int dir_fd, DirectoryLock* lock) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
  if (!exists) return Status::NotFound();
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, format::kLockName, io::Access::kRead, io::Caching::kBuffered, &file));
  ENGINE_RACE_RETURN_IF_ERROR(Refused(file, LockPatiently(file)));
  // A refused writer may have removed the file meanwhile: its lock keeps nobody out.
  bool same = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::NamesFile(dir_fd, format::kLockName, file.fd(), &same));
  if (!same) return Status::IOError("manifest_lock was removed: the store is opened elsewhere");
  lock->file_ = std::move(file);
  lock->owner_ = ::getpid();
  return Status::Ok();
}

Status DirectoryLock::Watch(int dir_fd, DirectoryLock* lock) {
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kLockName, &exists));
  if (!exists) return Status::NotFound();
  return io::File::Open(dir_fd, format::kLockName, io::Access::kRead, io::Caching::kBuffered,
                        &lock->file_);
}

// The lock is asked about after the text. A writer that ends in between has emptied the text before
// it drops the lock, or was killed and leaves it.
Status DirectoryLock::Look(Sight* sight) const {
  *sight = Sight();
  ENGINE_RACE_RETURN_IF_ERROR(sys::ChangedAt(file_.fd(), &sight->changed_ns));
  const std::string text = OwnerText(file_);
  bool held = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::HasExclusiveLock(file_.fd(), &held));
  const bool is_whole = text.size() == kOwnerBytes;
  if (is_whole && text.ends_with(kCompleteMark)) {
    std::memcpy(&sight->opening_id, text.data() + kIdOffset, sizeof(sight->opening_id));
    sight->writer = held ? Writer::kComplete : Writer::kNone;
  } else if (held) {
    sight->writer = Writer::kOpening;
  } else if (is_whole) {
    sight->writer = Writer::kInterrupted;
  }
  return Status::Ok();
}

Status DirectoryLock::IsThere(int dir_fd, bool* same) const {
  return sys::NamesFile(dir_fd, format::kLockName, file_.fd(), same);
}

Status DirectoryLock::NoteComplete(uint64_t opening_id) {
  return NameOwner(kCompleteMark, opening_id);
}

Status DirectoryLock::NameOwner(std::string_view mark, uint64_t opening_id) {
  is_named_ = true;
  return Guarded([&] {
    std::string text = ToText(ThisProcess());
    text.resize(kIdOffset);
    text.append(reinterpret_cast<const char*>(&opening_id), sizeof(opening_id));
    text += mark;
    text.resize(kOwnerBytes);
    return file_.Write(text.data(), text.size(), 0);
  });
}

}  // namespace engine_race
