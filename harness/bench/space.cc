#include "harness/bench/space.h"

#include <algorithm>

#include "harness/data/value_maker.h"
#include "harness/load/store_basics.h"
#include "harness/system/disk.h"

namespace engine_race::harness {
namespace {

// More than any disk holds, and far from overflow in bytes.
constexpr double kMostRecords = 0x1p50;

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
  const auto need_of = [](const std::string& path, uint64_t bytes) {
    return SpaceNeed{path, bytes, path.empty() ? 0 : AllocatedBytes(path)};
  };
  const uint64_t value_bytes = records * kValueSize;
  std::vector<SpaceNeed> needs = {
      need_of(dir, StoreBytes(records) - (value_paths.empty() ? 0 : value_bytes))};
  // The values are striped over the paths.
  for (const std::string& path : value_paths) {
    needs.push_back(need_of(path, value_bytes / value_paths.size()));
  }
  return WhyNoRoom(needs);
}

}  // namespace engine_race::harness
