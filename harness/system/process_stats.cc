#include "harness/system/process_stats.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "engine_race/base/parallel.h"
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

}  // namespace engine_race::harness
