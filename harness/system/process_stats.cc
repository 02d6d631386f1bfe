#include "harness/system/process_stats.h"

#include <sys/resource.h>
#include <time.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace engine_race::harness {

CpuTimes ProcessCpuTimes() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
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

uint64_t PeakRssBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    uint64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

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

}  // namespace engine_race::harness
