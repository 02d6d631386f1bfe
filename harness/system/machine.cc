#include "harness/system/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine_race/base/parallel.h"
#include "harness/system/disk.h"

namespace engine_race::harness {
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

uint64_t FreeMemoryBytes() {
  std::ifstream info("/proc/meminfo");
  uint64_t kib = 0;
  std::string name;
  while (info >> name && name != "MemAvailable:") {
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  info >> kib;
  return kib * 1024;
}

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

}  // namespace engine_race::harness
