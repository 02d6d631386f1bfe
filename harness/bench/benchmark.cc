#include "harness/bench/benchmark.h"

#include <algorithm>

#include "harness/bench/load.h"
#include "harness/data/mix.h"

namespace engine_race::harness {
namespace {

constexpr std::array<BenchTraits, 25> kBenchmarks = {{
    {.name = "fillseq", .is_fill = true, .writes = true, .divides_writes = true, .has_end = true},
    {.name = "filluniquerandom",
     .is_fill = true,
     .writes = true,
     .divides_writes = true,
     .has_end = true},
    {.name = "fillrandom", .is_fill = true, .writes = true, .divides_writes = true},
    {.name = "fillsync", .is_fill = true, .writes = true, .divides_writes = true, .syncs = true},
    {.name = "overwrite", .writes = true, .divides_writes = true},
    {.name = "deleterandom", .writes = true, .divides_writes = true},
    {.name = "readrandom"},
    {.name = "readmissing"},
    {.name = "readseq", .has_end = true},
    {.name = "readreverse", .has_end = true},
    {.name = "scanall", .has_end = true},
    {.name = "seekrandom"},
    {.name = "readwhilewriting", .writes = true, .has_writer = true},
    {.name = "seekrandomwhilewriting", .writes = true, .has_writer = true},
    {.name = "readrandomwriterandom", .writes = true},
    {.name = "updaterandom", .writes = true, .write_percent = 100},
    {.name = "multireadrandom"},
    {.name = "select_random_ranges"},
    {.name = "ycsbload",
     .is_fill = true,
     .writes = true,
     .is_ycsb = true,
     .divides_writes = true,
     .has_end = true},
    {.name = "ycsba", .writes = true, .is_ycsb = true, .write_percent = 50},
    {.name = "ycsbb", .writes = true, .is_ycsb = true, .write_percent = 5},
    {.name = "ycsbc", .is_ycsb = true},
    {.name = "ycsbd", .writes = true, .is_ycsb = true, .write_percent = 5, .inserts = true},
    {.name = "ycsbe", .writes = true, .is_ycsb = true, .write_percent = 5, .inserts = true},
    {.name = "ycsbf", .writes = true, .is_ycsb = true, .write_percent = 50},
}};

constexpr std::array<std::string_view, kOperationKindCount> kKindNames = {
    "read", "write", "delete", "seek", "scan", "read-modify-write", "update", "insert"};

// How far neighbouring keys lie apart.
uint64_t Stride(const BenchConfig& config) {
  return config.key_layout == KeyLayout::kDense ? 1 : ~uint64_t{0} / config.num;
}

}  // namespace

std::string_view OperationKindName(OperationKind kind) {
  return kKindNames[static_cast<size_t>(kind)];
}

LatencyHistogram BenchResult::Latency() const {
  LatencyHistogram all;
  for (const LatencyHistogram& one : latencies) all.Merge(one);
  return all;
}

const BenchTraits* FindBenchmark(std::string_view name) {
  const auto* const found = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                         [&](const BenchTraits& one) { return one.name == name; });
  return found == kBenchmarks.end() ? nullptr : found;
}

std::vector<std::string> BenchmarkNames() {
  std::vector<std::string> names;
  names.reserve(kBenchmarks.size());
  for (const BenchTraits& one : kBenchmarks) names.emplace_back(one.name);
  return names;
}

uint64_t WritesOf(const BenchConfig& config) {
  constexpr uint64_t kSyncDivisor = 1000;
  const BenchTraits& traits = *FindBenchmark(config.benchmark);
  if (traits.is_ycsb) return config.num;
  if (config.writes == 0) {
    return traits.syncs ? std::max<uint64_t>(config.num / kSyncDivisor, 1) : config.num;
  }
  const bool repeats = WriteOrderOf(config.benchmark) == WriteOrder::kRandom;
  return repeats ? config.writes : std::min(config.writes, config.num);
}

uint32_t WritePercent(const BenchConfig& config) {
  if (config.benchmark == "readrandomwriterandom") return 100 - config.read_percent;
  return FindBenchmark(config.benchmark)->write_percent;
}

uint64_t KeyOfNumber(const BenchConfig& config, uint64_t number) { return number * Stride(config); }

uint64_t MissingKey(const BenchConfig& config, uint64_t number) {
  const uint64_t stride = Stride(config);
  return stride == 1 ? config.num + number : number * stride + stride / 2;
}

uint64_t YcsbKey(uint64_t number) { return Mix64(number); }

uint64_t ExpectedInserts(const BenchConfig& config) {
  const BenchTraits* const traits = FindBenchmark(config.benchmark);
  if (traits == nullptr || !traits->inserts) return 0;
  const double operations =
      static_cast<double>(ReadsOfThread(config)) * static_cast<double>(config.thread_count);
  return static_cast<uint64_t>(std::min(operations, static_cast<double>(kMaxBenchRecords)) *
                               traits->write_percent / 100);
}

Status HasYcsbRecord(KvStore* store, uint64_t number, bool* has) {
  std::vector<char> value(store->value_bytes());
  const Status status = store->Get(YcsbKey(number), value.data());
  *has = status.ok();
  return status.code() == Code::kNotFound ? Status::Ok() : status;
}

Status HasYcsbRecords(const BenchConfig& config, KvStore* store, bool* has) {
  ENGINE_RACE_RETURN_IF_ERROR(HasYcsbRecord(store, 0, has));
  // A load has at most kMaxBenchThreads threads, and each ends with one of the last records.
  const uint64_t last_count = std::min<uint64_t>(kMaxBenchThreads, config.num);
  for (uint64_t i = 1; *has && i <= last_count; ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(HasYcsbRecord(store, config.num - i, has));
  }
  return Status::Ok();
}

void ReplayWrites(const BenchConfig& config, const BenchResult& result,
                  const std::function<void(uint64_t number, bool deleted)>& visit) {
  const BenchTraits* const traits = FindBenchmark(config.benchmark);
  if (traits == nullptr || !traits->writes || traits->is_ycsb) return;
  const bool deleted = config.benchmark == "deleterandom";
  for (uint32_t thread = 0; thread < result.thread_calls.size(); ++thread) {
    const bool only_writes = traits->divides_writes || thread == config.thread_count;
    const uint32_t write_percent = only_writes ? 100 : WritePercent(config);
    // Beside a background writer the others read.
    if (write_percent == 0) continue;
    const WriteDraw draw(config, WriteOrderOf(config.benchmark), thread);
    for (uint64_t call = 0; call < result.thread_calls[thread]; ++call) {
      if (CallWrites(write_percent, call)) visit(draw.NumberAt(call), deleted);
    }
  }
}

}  // namespace engine_race::harness
