#include "test/power/power_disk.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace engine_race::test {
namespace {

constexpr char kBootIdPath[] = "/proc/sys/kernel/random/boot_id";

// Set while the disk itself is at work: its own calls are no business of the store's.
thread_local bool at_work = false;

class AtWork {
 public:
  AtWork() { at_work = true; }
  ~AtWork() { at_work = false; }
};

bool IsMapped(const std::string& name) {
  return name.starts_with("staging_") && name != "staging_journal";
}

bool IsDirectory(const std::string& name) { return name == "." || name.ends_with("/."); }

// Up to and with the slash; empty for what lies in the directory itself.
std::string ParentOf(const std::string& name) { return name.substr(0, name.rfind('/') + 1); }

}  // namespace

PowerDisk::PowerDisk(std::string dir) : dir_(std::move(dir)) {
  AdoptFiles("");
  for (const std::string& subdirectory : subdirectories_) AdoptFiles(subdirectory + "/");
  names_ = durable_names_;
}

void PowerDisk::AdoptFiles(const std::string& subdirectory) {
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/" + subdirectory)) {
    const std::string name = subdirectory + entry.path().filename().string();
    if (entry.is_directory()) {
      subdirectories_.push_back(name);
      continue;
    }
    auto file = std::make_shared<FileModel>(entry.path().string(), IsMapped(name));
    file->Adopt();
    durable_names_[name] = std::move(file);
  }
}

bool PowerDisk::NameOf(const std::string& path, std::string* name) const {
  std::string plain = std::filesystem::path(path).lexically_normal().string();
  if (plain.ends_with('/')) plain.pop_back();
  if (plain == dir_) {
    *name = ".";
    return true;
  }
  if (!plain.starts_with(dir_ + "/")) return false;
  *name = plain.substr(dir_.size() + 1);
  const auto known = [this](const std::string& subdirectory) {
    return std::find(subdirectories_.begin(), subdirectories_.end(), subdirectory) !=
           subdirectories_.end();
  };
  if (known(*name)) {
    *name += "/.";
    return true;
  }
  const std::string parent = ParentOf(*name);
  return parent.empty() || known(parent.substr(0, parent.size() - 1));
}

bool PowerDisk::FindFd(int fd, OpenFile* found) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = open_.find(fd);
  if (it == open_.end()) return false;
  *found = it->second;
  return true;
}

long PowerDisk::OnCall(SystemCall* call) {
  if (at_work) return call->Proceed();
  switch (call->kind) {
    case CallKind::kOpenAt:
      return OnOpen(call);
    case CallKind::kRenameAt:
      return OnRename(call);
    case CallKind::kUnlinkAt:
      return OnUnlink(call);
    case CallKind::kFstat:
    case CallKind::kFstatAt:
      return OnStatus(call);
    case CallKind::kClose:
      OnClose(call->fd);
      return call->Proceed();
    case CallKind::kPwrite:
    case CallKind::kFsync:
    case CallKind::kFdatasync:
    case CallKind::kFallocate:
    case CallKind::kFtruncate:
      break;
    default:
      return call->Proceed();
  }
  OpenFile found;
  if (!FindFd(call->fd, &found)) return call->Proceed();
  const auto& [name, file, direct] = found;
  const std::string event = std::string(CallName(call->kind)) + " " + name;
  Tell("before " + event);
  long result = 0;
  Change change;
  change.direct = direct;
  if (call->kind == CallKind::kFsync || call->kind == CallKind::kFdatasync) {
    result = file == nullptr ? OnDirectoryFlush(call, name) : OnFlush(call, name, file.get());
  } else if (call->kind == CallKind::kPwrite) {
    change.offset = static_cast<uint64_t>(call->offset);
    change.size = call->size;
    change.data.assign(static_cast<const char*>(call->data), call->size);
    result = OnChange(call, file.get(), std::move(change));
  } else if (call->kind == CallKind::kFtruncate) {
    change.kind = Change::Kind::kResize;
    change.size = static_cast<uint64_t>(call->length);
    result = OnChange(call, file.get(), std::move(change));
  } else if ((call->flags & FALLOC_FL_PUNCH_HOLE) != 0 && !punches_holes) {
    result = -1;
    errno = EOPNOTSUPP;
  } else if ((call->flags & FALLOC_FL_PUNCH_HOLE) != 0) {
    change.kind = Change::Kind::kPunch;
    change.offset = static_cast<uint64_t>(call->offset);
    change.size = static_cast<uint64_t>(call->length);
    result = OnChange(call, file.get(), std::move(change));
  } else {
    // A reservation: it may be gone after a power loss, and nothing is to depend on it.
    result = call->Proceed();
  }
  const int error = errno;
  Tell("after " + event);
  errno = error;
  return result;
}

long PowerDisk::OnOpen(SystemCall* call) {
  if (!boot_id_path.empty() && std::string(call->name) == kBootIdPath) {
    call->name = boot_id_path.c_str();
    return call->Proceed();
  }
  std::string name;
  if (!NameOf(PathAt(call->fd, call->name), &name)) return call->Proceed();
  if (refuses_direct && (call->flags & O_DIRECT) != 0) {
    errno = EINVAL;
    return -1;
  }
  const bool may_create = (call->flags & O_CREAT) != 0;
  if (may_create) Tell("before openat " + name);
  long result = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    result = call->Proceed();
    if (result < 0) return result;
    OpenFile& opened = open_[static_cast<int>(result)];
    opened = {name, nullptr, (call->flags & O_DIRECT) != 0};
    if (!IsDirectory(name)) {
      const bool is_new = names_.find(name) == names_.end();
      if (is_new) {
        names_[name] = std::make_shared<FileModel>(dir_ + "/" + name, IsMapped(name));
        name_changes_.push_back(std::make_shared<NameChange>(NameChange{"", name, names_[name]}));
      }
      opened.file = names_[name];
      if (!is_new && (call->flags & O_TRUNC) != 0) {
        Change change;
        change.kind = Change::Kind::kResize;
        change.id = next_id_++;
        opened.file->Complete(opened.file->Begin(std::move(change)).get(), 0);
      }
    }
  }
  if (may_create) Tell("after openat " + name);
  return result;
}

// Of a file by its descriptor, or by its name in a directory: both are of one mount.
long PowerDisk::OnStatus(SystemCall* call) {
  const long result = call->Proceed();
  OpenFile found;
  if (result == 0 && FindFd(call->fd, &found)) {
    static_cast<struct stat*>(call->buffer)->st_dev += mount_number;
  }
  return result;
}

long PowerDisk::OnRename(SystemCall* call) {
  std::string from;
  std::string to;
  if (!NameOf(PathAt(call->fd, call->name), &from) ||
      !NameOf(PathAt(call->new_fd, call->new_name), &to)) {
    return call->Proceed();
  }
  Tell("before renameat " + from);
  long result = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    result = call->Proceed();
    if (result == 0) {
      auto change = std::make_shared<NameChange>(NameChange{from, to, names_.at(from)});
      Apply(*change, &names_);
      name_changes_.push_back(std::move(change));
    }
  }
  Tell("after renameat " + from);
  return result;
}

long PowerDisk::OnUnlink(SystemCall* call) {
  std::string name;
  if (!NameOf(PathAt(call->fd, call->name), &name)) return call->Proceed();
  Tell("before unlinkat " + name);
  long result = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    result = call->Proceed();
    if (result == 0) {
      auto change = std::make_shared<NameChange>(NameChange{name, "", names_.at(name)});
      Apply(*change, &names_);
      name_changes_.push_back(std::move(change));
    }
  }
  Tell("after unlinkat " + name);
  return result;
}

void PowerDisk::Apply(const NameChange& change, Names* names) {
  if (!change.from.empty()) names->erase(change.from);
  if (!change.to.empty()) (*names)[change.to] = change.file;
}

long PowerDisk::OnChange(SystemCall* call, FileModel* file, Change change) {
  std::shared_ptr<Change> begun;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    change.id = next_id_++;
    begun = file->Begin(std::move(change));
  }
  const long result = call->Proceed();
  const int error = errno;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    file->Complete(begun.get(), result);
  }
  errno = error;
  return result;
}

long PowerDisk::OnFlush(SystemCall* call, const std::string& name, FileModel* file) {
  FileModel::Flush flush;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    flush = file->BeginFlush();
  }
  const bool fails = fails_flush && fails_flush(name);
  const long result = fails ? -1 : call->Proceed();
  const int error = fails ? EIO : errno;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    file->EndFlush(flush, result == 0);
  }
  errno = error;
  return result;
}

long PowerDisk::OnDirectoryFlush(SystemCall* call, const std::string& name) {
  const std::string parent = ParentOf(name);
  std::vector<std::shared_ptr<NameChange>> covered;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& change : name_changes_) {
      // No name is moved from one directory to another.
      if (ParentOf(change->to.empty() ? change->from : change->to) == parent) {
        covered.push_back(change);
      }
    }
  }
  const long result = call->Proceed();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (result != 0) return result;
  for (const auto& change : covered) {
    if (!change->durable) Apply(*change, &durable_names_);
    change->durable = true;
  }
  std::erase_if(name_changes_, [](const auto& change) { return change->durable; });
  return result;
}

void PowerDisk::OnClose(int fd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_.erase(fd);
}

void PowerDisk::Look() {
  const AtWork at_work_here;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, file] : names_) {
    if (file->mapped()) file->Look();
  }
}

void PowerDisk::Crash(Random* random, const std::string& to) {
  uint64_t end_id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_id = next_id_;
  }
  Crash(CrashBias::Draw(random, end_id), random, to);
}

void PowerDisk::Crash(const CrashBias& bias, Random* random, const std::string& to) {
  const AtWork at_work_here;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, file] : names_) {
    if (file->mapped()) file->Look();
  }
  Names names = durable_names_;
  for (const auto& change : name_changes_) {
    if (Chance(random, bias.keep_name)) Apply(*change, &names);
  }
  for (const std::string& subdirectory : subdirectories_) {
    std::filesystem::create_directory(to + "/" + subdirectory);
  }
  for (const auto& [name, file] : names) {
    const std::string path = to + "/" + name;
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
    file->CopyCrashed(bias, random, fd);
    ::close(fd);
  }
}

size_t PowerDisk::pending_count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t count = name_changes_.size();
  for (const auto& [name, file] : names_) count += file->pending_count();
  return count;
}

}  // namespace engine_race::test
