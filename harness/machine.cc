#include "harness/machine.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/race_dir.h"

namespace harness {
namespace {

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

int CpuCount() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 0;
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
          {"cpu_count", CpuCount()},
          {"memory_bytes", pages * page_bytes},
          {"kernel", Kernel()},
          {"file_system", FileSystemName(dir)},
          {"free_disk_bytes", FreeBytes(dir)}};
}

}  // namespace harness
