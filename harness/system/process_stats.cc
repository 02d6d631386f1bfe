#include "harness/system/process_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "engine_race/base/parallel.h"
#include "engine_race/base/text_file.h"
#include "harness/system/disk.h"

namespace engine_race::harness {

CpuTimes ProcessCpuTimes() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}

CpuTimes operator-(const CpuTimes& after, const CpuTimes& before) {
  return {after.user_seconds - before.user_seconds, after.system_seconds - before.system_seconds};
}

double CpuSeconds() {
  const CpuTimes times = ProcessCpuTimes();
  return times.user_seconds + times.system_seconds;
}

uint64_t ThreadCpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t ThreadWaitCount() {
  rusage used = {};
  getrusage(RUSAGE_THREAD, &used);
  return static_cast<uint64_t>(used.ru_nvcsw);
}

namespace {

// The field of a file of /proc whose line begins with `name`, as "VmHWM:"; 0 where there is none.
uint64_t FieldBytes(const char* path, const char* name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word && word != name) {
  }
  uint64_t kib = 0;
  file >> kib;
  return kib * 1024;
}

}  // namespace

uint64_t PeakRssBytes() { return FieldBytes("/proc/self/status", "VmHWM:"); }

uint64_t FreeMemoryBytes() { return FieldBytes("/proc/meminfo", "MemAvailable:"); }

bool ResetPeakRss() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

uint64_t OpenFileCount() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  // One of them is the listing itself.
  return static_cast<uint64_t>(std::distance(begin(files), end(files))) - 1;
}

void RaiseFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));
}

namespace {

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string Kernel() {
  utsname name = {};
  return uname(&name) == 0 ? std::string(name.sysname) + " " + name.release : "unknown";
}

}  // namespace

nlohmann::json DescribeMachine(const std::string& dir) {
  const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return {{"cpu", CpuModel()},
          {"cpu_count", AvailableCpuCount()},
          {"memory_bytes", pages * page_bytes},
          {"kernel", Kernel()},
          {"file_system", FileSystemName(dir)},
          {"free_disk_bytes", FreeBytes(dir)}};
}

namespace {

// The kernel's types and numbers of the events, in the order of CpuCounts.
constexpr std::pair<uint32_t, uint64_t> kEvents[] = {
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {PERF_TYPE_HW_CACHE, PERF_COUNT_HW_CACHE_L1D | (PERF_COUNT_HW_CACHE_OP_READ << 8) |
                             (PERF_COUNT_HW_CACHE_RESULT_MISS << 16)}};

int OpenEvent(uint32_t type, uint64_t number) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = type;
  attributes.config = number;
  attributes.disabled = 1;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

uint64_t ReadCount(int fd) {
  uint64_t count = 0;
  return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

}  // namespace

std::optional<CpuCounters> CpuCounters::Open() {
  CpuCounters counters;
  for (size_t i = 0; i < counters.fds_.size(); ++i) {
    const int fd = OpenEvent(kEvents[i].first, kEvents[i].second);
    if (fd < 0) return std::nullopt;
    counters.fds_[i] = UniqueFd(fd);
  }
  return counters;
}

void CpuCounters::Start() {
  for (const UniqueFd& fd : fds_) {
    ioctl(fd.get(), PERF_EVENT_IOC_RESET, 0);
    ioctl(fd.get(), PERF_EVENT_IOC_ENABLE, 0);
  }
}

CpuCounts CpuCounters::Stop() {
  for (const UniqueFd& fd : fds_) ioctl(fd.get(), PERF_EVENT_IOC_DISABLE, 0);
  return {ReadCount(fds_[0].get()), ReadCount(fds_[1].get()), ReadCount(fds_[2].get())};
}

ProfilerSwitch::ProfilerSwitch(std::string control_path, std::string answer_path)
    : control_path_(std::move(control_path)), answer_path_(std::move(answer_path)) {}

bool ProfilerSwitch::Turn(bool on) const {
  if (control_path_.empty()) return true;
  std::ofstream control(control_path_);
  control << (on ? "enable\n" : "disable\n") << std::flush;
  std::ifstream answer(answer_path_);
  std::string word;
  return control && std::getline(answer, word) && word.starts_with("ack");
}

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
