#include "harness/system/memory_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine_race/base/text_file.h"

namespace engine_race::harness {

namespace {

Status WriteFile(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Status::NotSupported(path + ": " + std::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  return written ? Status::Ok() : Status::NotSupported(path + ": " + std::strerror(error));
}

// Whether a group of version 2 gives the groups below it a cap, or does so from now on.
bool HandsDown(const FileReaderFn& read, const std::string& path) {
  const std::string handed_down = path + "/cgroup.subtree_control";
  return (" " + read(handed_down)).find(" memory") != std::string::npos ||
         WriteFile(handed_down, "+memory").ok();
}

// Makes a directory below `parent` that nobody else has.
Status MakeGroup(const std::string& parent, std::string* path) {
  // A process that was killed may have left groups, and another process may have its number now.
  constexpr int kMostTries = 1000;
  static std::atomic<uint32_t> made_count{0};
  const std::string prefix = parent + "/engine_race_" + std::to_string(::getpid()) + "_";
  for (int tries = 0; tries < kMostTries; ++tries) {
    // Relaxed: only the number itself matters.
    *path = prefix + std::to_string(made_count.fetch_add(1, std::memory_order_relaxed));
    if (::mkdir(path->c_str(), 0755) == 0) return Status::Ok();
    if (errno != EEXIST) break;
  }
  return Status::NotSupported("mkdir " + *path + ": " + std::strerror(errno));
}

}  // namespace

Status FindMemoryCgroupParent(const FileReaderFn& read, MemoryCgroupParent* parent) {
  std::vector<std::string> second;  // the process's own group of version 2, then those above it
  *parent = MemoryCgroupParent();
  VisitControlGroups(read, "memory", [&](const std::string& path, bool is_second) {
    if (is_second) {
      second.push_back(path);
    } else if (parent->path.empty()) {
      *parent = {path, 1};
    }
  });
  if (!parent->path.empty()) return Status::Ok();
  if (second.empty()) return Status::NotSupported("no cgroup of memory is mounted");
  for (const std::string& path : second) {
    if (!HandsDown(read, path)) continue;
    *parent = {path, 2};
    return Status::Ok();
  }
  return Status::NotSupported("no cgroup hands the memory controller down");
}

MemoryCgroup::~MemoryCgroup() {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

Status MemoryCgroup::Create(uint64_t limit_bytes) {
  MemoryCgroupParent parent;
  ENGINE_RACE_RETURN_IF_ERROR(FindMemoryCgroupParent(ReadTextFile, &parent));
  std::string path;
  ENGINE_RACE_RETURN_IF_ERROR(MakeGroup(parent.path, &path));
  path_ = path;
  version_ = parent.version;
  const bool is_second = version_ == 2;
  const std::string limit = std::to_string(limit_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteFile(path + (is_second ? "/memory.max" : "/memory.limit_in_bytes"), limit));
  // Kernels without accounting of swap lack this file.
  const std::string swap = path + (is_second ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes");
  if (!std::filesystem::exists(swap)) return Status::Ok();
  return WriteFile(swap, is_second ? "0" : limit);
}

Status MemoryCgroup::Join(const std::string& path) {
  return WriteFile(path + "/cgroup.procs", "0");
}

Status MemoryCgroup::TryOut(uint64_t limit_bytes) {
  MemoryCgroup group;
  ENGINE_RACE_RETURN_IF_ERROR(group.Create(limit_bytes));
  const pid_t child = ::fork();
  if (child < 0) return Status::FromErrno("fork", errno);
  if (child == 0) ::_exit(Join(group.path()).ok() ? 0 : 1);
  int ended = 0;
  while (::waitpid(child, &ended, 0) < 0) {
    if (errno != EINTR) return Status::FromErrno("waitpid", errno);
  }
  if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) return Status::Ok();
  return Status::NotSupported("a process cannot join " + group.path());
}

}  // namespace engine_race::harness
