#include "harness/system/memory_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine_race/base/text_file.h"

namespace engine_race::harness {
namespace {

constexpr char kV1Limit[] = "memory.limit_in_bytes";
constexpr char kV1SwapLimit[] = "memory.memsw.limit_in_bytes";
constexpr char kV2Limit[] = "memory.max";
constexpr char kV2SwapLimit[] = "memory.swap.max";

// Whether `word` is one of the words of a list.
bool HasWord(const std::string& list, std::string_view word, char separator) {
  std::istringstream words(list);
  for (std::string one; std::getline(words, one, separator);) {
    while (!one.empty() && (one.back() == '\n' || one.back() == ' ')) one.pop_back();
    if (one == word) return true;
  }
  return false;
}

Status WriteFile(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return Status::NotSupported(path + ": " + std::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  return written ? Status::Ok() : Status::NotSupported(path + ": " + std::strerror(error));
}

// The mount point in a line of mountinfo if the line is of a memory hierarchy.
std::optional<MemoryCgroupPlace> PlaceOfMount(const std::string& line) {
  std::istringstream words(line);
  std::string id, parent, device, root, mount, word;
  words >> id >> parent >> device >> root >> mount;
  while (words >> word && word != "-") {
  }
  std::string type, source, options;
  words >> type >> source >> options;
  const bool is_v1 = type == "cgroup" && HasWord(options, "memory", ',');
  if (!is_v1 && type != "cgroup2") return std::nullopt;
  // In a container the root of the mount is this process's group, or above it.
  return MemoryCgroupPlace{!is_v1, mount, root == "/" ? std::string() : root};
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

// Whether `path` is `root` or lies below it.
bool LiesBelow(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

}  // namespace

std::string ParentForMemoryCgroups(const MemoryCgroupPlace& place) {
  if (!place.is_v2) return place.mount + place.own;
  for (std::string group = place.own;;) {
    const std::string path = place.mount + group;
    const std::string handed_down = path + "/cgroup.subtree_control";
    if (HasWord(ReadTextFile(handed_down), "memory", ' ') ||
        WriteFile(handed_down, "+memory").ok()) {
      return path;
    }
    if (group.empty()) return {};
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

std::optional<MemoryCgroupPlace> FindMemoryCgroup(std::string_view mountinfo,
                                                  std::string_view cgroups) {
  std::optional<MemoryCgroupPlace> found;
  std::istringstream mounts{std::string(mountinfo)};
  for (std::string line; std::getline(mounts, line);) {
    const auto place = PlaceOfMount(line);
    if (place && (!found || !place->is_v2)) found = place;
  }
  if (!found) return found;
  const std::string mount_root = std::exchange(found->own, {});
  std::istringstream groups{std::string(cgroups)};
  for (std::string line; std::getline(groups, line);) {
    // "4:memory:/group", or "0::/group" of version 2.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_it = found->is_v2 ? line.starts_with("0::") : HasWord(controllers, "memory", ',');
    if (!is_it) continue;
    std::string own = line.substr(second + 1);
    if (LiesBelow(own, mount_root)) own.erase(0, mount_root.size());
    while (own.ends_with('/')) own.pop_back();
    found->own = own;
  }
  return found;
}

MemoryCgroup::~MemoryCgroup() {
  if (!path_.empty()) ::rmdir(path_.c_str());
}

Status MemoryCgroup::Create(uint64_t limit_bytes) {
  const auto place =
      FindMemoryCgroup(ReadTextFile("/proc/self/mountinfo"), ReadTextFile("/proc/self/cgroup"));
  if (!place) return Status::NotSupported("no cgroup of memory is mounted");
  const std::string parent = ParentForMemoryCgroups(*place);
  if (parent.empty()) return Status::NotSupported("no cgroup hands the memory controller down");
  std::string path;
  ENGINE_RACE_RETURN_IF_ERROR(MakeGroup(parent, &path));
  path_ = path;
  version_ = place->is_v2 ? 2 : 1;
  const std::string limit = std::to_string(limit_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(WriteFile(path + "/" + (place->is_v2 ? kV2Limit : kV1Limit), limit));
  // Kernels without accounting of swap lack this file.
  const std::string swap = path + "/" + (place->is_v2 ? kV2SwapLimit : kV1SwapLimit);
  if (std::filesystem::exists(swap)) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteFile(swap, place->is_v2 ? "0" : limit));
  }
  return Status::Ok();
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
