// The part of sys that makes, opens and lists directories, and tells when a file was changed.
//
// Missing directories are made from the top, one at a time. A name is durable in the directory that
// holds it before the next one is made below it. So a creation that was killed leaves at most one
// name behind that may be lost, the deepest one that exists. The next creation flushes the
// directory of that name, too, before it goes on from there.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "engine_race/base/retry.h"
#include "engine_race/base/sys.h"

namespace engine_race::sys {
namespace {

constexpr int kWalk = O_PATH | O_DIRECTORY;

// The names between the slashes, "." left out.
std::vector<std::string> ComponentsOf(const std::string& path) {
  std::vector<std::string> components;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    if (!name.empty() && name != ".") components.push_back(name);
    begin = end + 1;
  }
  return components;
}

// Opens a directory to walk from; *missing when there is none of that name.
Status Step(int dir_fd, const std::string& name, UniqueFd* fd, bool* missing) {
  const int opened = Retry([&] { return ::openat(dir_fd, name.c_str(), kWalk | O_CLOEXEC); });
  *missing = opened < 0 && errno == ENOENT;
  if (opened < 0 && !*missing) {
    return Status::FromErrno("open " + name, errno, PathOf(dir_fd, name));
  }
  *fd = UniqueFd(opened);
  return Status::Ok();
}

// Flushes the names in `holder`, that of `held` among them. A directory that may not be read cannot
// be flushed; the file system of `held` can. If that may not be read either, this user has not made
// it, and its name is not this store's to keep.
Status SyncNames(int holder, int held) {
  for (const bool of_holder : {true, false}) {
    const UniqueFd fd(Retry([&] {
      return ::openat(of_holder ? holder : held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }));
    if (fd.valid()) {
      if (of_holder) {
        // EINVAL: a file system without a flush (squashfs, autofs), to which nobody has added a
        // name.
        if (::fsync(fd.get()) == 0 || errno == EINVAL) return Status::Ok();
        return Status::FromErrno("fsync of a parent directory", errno, PathOf(holder));
      }
      return ::syncfs(fd.get()) == 0 ? Status::Ok()
                                     : Status::FromErrno("syncfs", errno, PathOf(held));
    }
    if (errno != EACCES) return Status::FromErrno("open a parent directory", errno, PathOf(held));
  }
  return Status::Ok();
}

// The directory that `path` begins in.
Status OpenStart(const std::string& path, UniqueFd* fd) {
  return OpenAt(AT_FDCWD, path.starts_with('/') ? "/" : ".", kWalk, 0, fd);
}

// Makes `path` and what is missing above it.
Status MakeDirectories(const std::string& path, mode_t mode) {
  const std::vector<std::string> components = ComponentsOf(path);
  UniqueFd above;
  UniqueFd at;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStart(path, &at));
  bool making = false;
  for (size_t i = 0; i < components.size(); ++i) {
    UniqueFd next;
    bool missing = false;
    ENGINE_RACE_RETURN_IF_ERROR(Step(at.get(), components[i], &next, &missing));
    if (missing && !making) {
      making = true;
      if (std::find(components.begin() + static_cast<ptrdiff_t>(i), components.end(), "..") !=
          components.end()) {
        return Status::InvalidArgument(path + ": " + components[i] +
                                       " is missing, so it has no ..");
      }
      ENGINE_RACE_RETURN_IF_ERROR(RefuseAmongDevices(path, at.get()));
      if (above.valid()) ENGINE_RACE_RETURN_IF_ERROR(SyncNames(above.get(), at.get()));
    }
    if (missing) {
      if (::mkdirat(at.get(), components[i].c_str(), mode) != 0 && errno != EEXIST) {
        return Status::FromErrno("mkdir " + path, errno, path);
      }
      // Still missing: the name is of a symlink that leads nowhere.
      ENGINE_RACE_RETURN_IF_ERROR(Step(at.get(), components[i], &next, &missing));
      if (missing) return Status::FromErrno("open " + path, ENOENT, path);
      ENGINE_RACE_RETURN_IF_ERROR(SyncNames(at.get(), next.get()));
    }
    above = std::move(at);
    at = std::move(next);
  }
  return Status::Ok();
}

// Where an open directory is, without symlinks; `path` made absolute where /proc does not say.
std::string ResolvedName(const std::string& path, int fd) {
  std::string name = PathOf(fd);
  if (!name.empty()) return name;
  std::error_code error;
  return std::filesystem::absolute(path, error).string();
}

}  // namespace

Status OpenDirectory(const std::string& path, bool create, UniqueFd* fd, mode_t mode) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const int found = Retry([&] { return ::openat(AT_FDCWD, path.c_str(), kFlags); });
  if (found >= 0) {
    *fd = UniqueFd(found);
    return Status::Ok();
  }
  if (errno != ENOENT || path.empty()) return Status::FromErrno("open " + path, errno, path);
  if (!create) {
    return Status(Code::kNotFound, "there is no directory " + path).At(path, ENOENT);
  }
  ENGINE_RACE_RETURN_IF_ERROR(MakeDirectories(path, mode));
  return OpenAt(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, fd);
}

Status SyncNameOf(const std::string& path, int fd) {
  std::vector<std::string> components = ComponentsOf(path);
  // The root has no name, and the name of a `..` was there before.
  if (components.empty() || components.back() == "..") return Status::Ok();
  components.pop_back();
  UniqueFd holder;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStart(path, &holder));
  for (const std::string& name : components) {
    UniqueFd next;
    ENGINE_RACE_RETURN_IF_ERROR(OpenAt(holder.get(), name, kWalk, 0, &next));
    holder = std::move(next);
  }
  return SyncNames(holder.get(), fd);
}

Status RefuseAmongDevices(const std::string& path, int fd) {
  struct stat devices;
  struct stat here;
  if (::stat("/dev", &devices) != 0) return Status::Ok();
  if (::fstat(fd, &here) != 0) return Status::FromErrno("fstat " + path, errno, path);
  if (here.st_dev != devices.st_dev) return Status::Ok();
  const std::string name = ResolvedName(path, fd) + "/";
  // Where /dev is no file system of its own, only the name tells.
  if (!name.starts_with("/dev/") || name.starts_with("/dev/shm/")) return Status::Ok();
  return Status::InvalidArgument(
      path + ": there is no such device, and a directory in /dev would keep nothing");
}

Status ChangedAt(int fd, uint64_t* ns) {
  struct stat found;
  if (::fstat(fd, &found) != 0) return Status::FromErrno("fstat", errno, PathOf(fd));
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  *ns = static_cast<uint64_t>(found.st_mtim.tv_sec) * kNsPerSecond +
        static_cast<uint64_t>(found.st_mtim.tv_nsec);
  return Status::Ok();
}

Status ListDirectory(int dir_fd, std::vector<std::string>* names) {
  // Opened anew: reading moves a descriptor's position, and dir_fd is shared.
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(OpenAt(dir_fd, ".", O_RDONLY | O_DIRECTORY, 0, &fd));
  const auto close = [](DIR* directory) { ::closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> directory(::fdopendir(fd.get()), close);
  if (directory == nullptr) return Status::FromErrno("readdir", errno, PathOf(dir_fd));
  static_cast<void>(fd.Release());  // closedir closes it
  while (true) {
    errno = 0;
    const struct dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) {
      return errno == 0 ? Status::Ok() : Status::FromErrno("readdir", errno, PathOf(dir_fd));
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names->emplace_back(name);
  }
}

}  // namespace engine_race::sys
