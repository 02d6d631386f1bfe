#include "harness/bench/space.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/system/disk.h"

namespace harness {
namespace {

// More than any disk holds, and far from overflow in bytes.
constexpr double kMostRecords = 0x1p50;

struct FileSystemNeed {
  std::string near;  // an existing directory of it
  uint64_t needed_bytes = 0;
  uint64_t reused_bytes = 0;
};

double ExpectedWrites(const BenchConfig& config, const BenchTraits& traits) {
  if (traits.divides_writes) return static_cast<double>(WritesOf(config));
  const auto of_thread = static_cast<double>(ReadsOfThread(config));
  // The writer beside readers: about as many writes as one reader reads.
  if (traits.has_writer) return of_thread;
  return of_thread * config.thread_count * WritePercent(config) / 100;
}

}  // namespace

uint64_t MostRecords(const BenchConfig& config, const std::vector<std::string>& steps) {
  double records = 0;
  double most = 0;
  bool has_ycsb = false;
  for (const std::string& step : steps) {
    const BenchTraits* const traits = FindBenchmark(step);
    if (traits == nullptr) continue;
    BenchConfig of_step = config;
    of_step.benchmark = step;
    if (traits->is_fill) {
      records = 0;
      has_ycsb = false;
    }
    // A workload of YCSB loads its records when they are missing.
    if (traits->is_ycsb && !traits->is_fill && !has_ycsb) {
      records += static_cast<double>(config.num);
    }
    has_ycsb = has_ycsb || traits->is_ycsb;
    records += ExpectedWrites(of_step, *traits);
    most = std::max(most, records);
  }
  return static_cast<uint64_t>(std::min(most, kMostRecords));
}

std::string WhyNoRoomFor(uint64_t records, const std::string& dir,
                         const std::vector<std::string>& value_paths) {
  std::map<dev_t, FileSystemNeed> needs;
  const auto add = [&](const std::string& path, uint64_t bytes) {
    struct stat info = {};
    const std::string near = NearestDir(path);
    if (stat(near.c_str(), &info) != 0 || S_ISBLK(info.st_mode)) return;
    FileSystemNeed& need = needs[info.st_dev];
    need.near = near;
    need.needed_bytes += bytes;
    if (!path.empty()) need.reused_bytes += AllocatedBytes(path);
  };
  const uint64_t value_bytes = records * kValueSize;
  add(dir, StoreBytes(records) - (value_paths.empty() ? 0 : value_bytes));
  // The values are striped over the paths.
  for (const std::string& path : value_paths) add(path, value_bytes / value_paths.size());
  for (const auto& [device, need] : needs) {
    const uint64_t free_bytes = FreeBytes(need.near) + need.reused_bytes;
    if (need.needed_bytes <= free_bytes) continue;
    return "not enough space in the file system of " + need.near + ": " +
           std::to_string(need.needed_bytes) + " bytes are needed, " + std::to_string(free_bytes) +
           " are free";
  }
  return {};
}

}  // namespace harness
