#include "harness/system/memory_cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <sstream>
#include <utility>

#include "engine_race/base/text_file.h"

namespace harness {
namespace {

using engine_race::ReadTextFile;
using engine_race::Status;

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

// The group below which a new one can be made: with version 2 only groups without processes of
// their own, and the root, hand the memory controller down.
std::string ParentOf(const MemoryCgroupPlace& place) {
  if (!place.is_v2) return place.mount + place.own;
  for (std::string group = place.own;; group.resize(group.rfind('/'))) {
    const std::string path = place.mount + group;
    const std::string handed_down = path + "/cgroup.subtree_control";
    if (HasWord(ReadTextFile(handed_down), "memory", ' ') ||
        WriteFile(handed_down, "+memory").ok()) {
      return path;
    }
    if (group.empty()) return {};
  }
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

}  // namespace

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
    if (own.starts_with(mount_root)) own.erase(0, mount_root.size());
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
  const std::string parent = ParentOf(*place);
  if (parent.empty()) return Status::NotSupported("no cgroup hands the memory controller down");
  const std::string path = parent + "/engine_race_" + std::to_string(::getpid());
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) {
    return Status::NotSupported("mkdir " + path + ": " + std::strerror(errno));
  }
  path_ = path;
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

}  // namespace harness
