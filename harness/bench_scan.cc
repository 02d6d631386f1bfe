#include "harness/bench_scan.h"

#include <algorithm>
#include <cstdio>

#include "harness/bench_race.h"
#include "harness/child_process.h"
#include "harness/machine.h"
#include "harness/scan_ranges.h"
#include "harness/scan_writers.h"
#include "harness/store_runs.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr char kSnapshot[] = "snapshot_ns";
constexpr char kRangeRatio[] = "range_ratio";
constexpr char kRangePass2[] = "range_pass2_ratio";
constexpr char kVisitCpu[] = "range_cpu_per_visit_ns";
constexpr char kWriterGrowth[] = "writer_cpu_growth_under_scan";
// Shown beside the claims.
constexpr char kP99Alone[] = "write P99 alone, ns";
constexpr char kP99Scanned[] = "write P99 under a scan, ns";
constexpr char kSnapshotCpu[] = "snapshot, CPU of its thread, ns";

constexpr ClaimTarget kTargets[] = {{kRangesGain, ">= 1.7"}, {kSetup, "<= 300"},
                                    {kVsRocks, ">= 10"},     {kSnapshot, "<= 200"},
                                    {kRefresh, "<= 50"},     {kRangeRatio, ">= 0.95"},
                                    {kVisitCpu, "<= 25"},    {kWriterGrowth, "<= 0.1"}};
constexpr const char* kBeside[] = {kRangePass2, kP99Alone, kP99Scanned, kSnapshotCpu};

}  // namespace

std::vector<std::string> ScanClaimNames() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

uint64_t ScanTmpfsBytes(const ScanBenchConfig& config) {
  return StoreBytes(std::max(config.written_record_count, config.visited_record_count));
}

BenchScan::BenchScan(const ScanBenchConfig& config, RaceDir* dir)
    : config_(config), dir_(dir), rounds_(kTargets) {}

bool BenchScan::MustStop() const { return !errors_.empty() || Interrupted(); }

bool BenchScan::Run(const std::function<void()>& after_part) {
  using Part = void (BenchScan::*)();
  const std::pair<bool, Part> parts[] = {
      {Wants(kRangesGain) || Wants(kSetup) || Wants(kRefresh) || Wants(kVsRocks),
       &BenchScan::ShortRanges},
      {Wants(kSnapshot), &BenchScan::Snapshots},
      {Wants(kVisitCpu), &BenchScan::Visits},
      {Wants(kWriterGrowth), &BenchScan::Writers},
      {Wants(kRangeRatio), &BenchScan::RangesOnDisk}};
  if (config_.tmpfs_dir.empty() && !config_.is_smoke) Fail("no tmpfs to work in");
  for (const auto& [is_wanted, part] : parts) {
    if (!is_wanted || MustStop()) continue;
    (this->*part)();
    after_part();
  }
  if (Interrupted()) Fail("interrupted");
  for (const std::string& name : config_.wanted) {
    if (!config_.is_smoke && !rounds_.has(name)) Fail("not measured: " + name);
  }
  return errors_.empty();
}

void BenchScan::ShortRanges() {
  ScanRanges ranges(
      {dir_->path(), config_.key_count, config_.round_count, config_.seconds, config_.seed},
      &rounds_);
  Status status = ranges.Prepare();
  if (status.ok() && (Wants(kRangesGain) || Wants(kSetup) || Wants(kRefresh))) {
    status = ranges.CompareIterators();
  }
  if (status.ok() && Wants(kVsRocks)) {
    if (config_.make_rocks) {
      status = ranges.CompareRocks(config_.make_rocks);
    } else {
      std::fprintf(stderr, "%s: built without RocksDB; scripts/setup.sh rocksdb installs it\n",
                   kVsRocks);
    }
  }
  rocks_ = ranges.rocks();
  if (!status.ok()) Fail("short ranges: " + status.ToString());
}

void BenchScan::Snapshots() {
  if (config_.tmpfs_dir.empty()) return;
  ScanWriters writers(config_.tmpfs_dir + "/store", config_.written_record_count, config_.seed);
  for (uint32_t round = 0; round < config_.round_count && !MustStop(); ++round) {
    const SnapshotCost cost =
        writers.TakeSnapshots(config_.snapshot_writer_count, config_.snapshot_count);
    if (!writers.failure().empty()) return Fail("snapshots: " + writers.failure());
    rounds_.Note(kSnapshot, cost.wall_ns);
    rounds_.Note(kSnapshotCpu, cost.cpu_ns);
    rounds_.Note("writes a second beside snapshots", cost.writes_per_second);
  }
}

void BenchScan::Visits() {
  if (config_.tmpfs_dir.empty()) return;
  constexpr uint32_t kPasses = 2;
  StoreRuns runs(
      {config_.tmpfs_dir + "/store", dir_->path(), config_.visited_record_count, config_.seed});
  if (!runs.Write(QuietOptions(), config_.thread_count).ok()) return Fail(runs.failure());
  for (uint32_t round = 0; round < config_.round_count && !MustStop(); ++round) {
    const std::vector<TimedRun> passes = runs.Ranges(QuietOptions(), config_.thread_count, kPasses);
    double sum = 0;
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      if (!passes[pass].ok()) return Fail(runs.failure());
      const double visit_ns = passes[pass].cpu_ns() / config_.thread_count;
      rounds_.Note("range, CPU of a visit, pass " + std::to_string(pass + 1) + ", ns", visit_ns);
      sum += visit_ns;
    }
    rounds_.Note(kVisitCpu, sum / kPasses);
  }
  runs.Remove(QuietOptions());
}

void BenchScan::Writers() {
  if (config_.tmpfs_dir.empty()) return;
  ScanWriters writers(config_.tmpfs_dir + "/store", config_.written_record_count, config_.seed);
  // The first round warms up: it does not count.
  for (uint32_t round = 0; round <= config_.round_count && !MustStop(); ++round) {
    WriterCost costs[2];
    for (const bool scanning : {round % 2 == 0, round % 2 != 0}) {
      costs[scanning ? 1 : 0] = writers.Overwrite(config_.writer_count, scanning);
      if (!writers.failure().empty()) return Fail("writers: " + writers.failure());
    }
    if (round == 0 && !config_.is_smoke) continue;
    rounds_.Note("write, CPU alone, ns", costs[0].cpu_ns);
    rounds_.Note("write, CPU under a scan, ns", costs[1].cpu_ns);
    rounds_.Note("writes a second alone", costs[0].writes_per_second);
    rounds_.Note("writes a second under a scan", costs[1].writes_per_second);
    rounds_.Note("records scanned beside a write",
                 static_cast<double>(costs[1].visited_count) /
                     static_cast<double>(config_.written_record_count));
    rounds_.Note(kP99Alone, static_cast<double>(costs[0].p99_ns));
    rounds_.Note(kP99Scanned, static_cast<double>(costs[1].p99_ns));
    rounds_.Note(kWriterGrowth, costs[1].cpu_ns / costs[0].cpu_ns - 1);
  }
}

// What bench_race measures, with its own rounds. The device's own rate is taken by somebody who
// does not look at what is read, so the claim's visitors only count; those of the race, who look at
// every value, are measured beside them.
void BenchScan::RangesOnDisk() {
  for (const bool checks_values : {false, true}) RangeOnDisk(checks_values);
}

void BenchScan::RangeOnDisk(bool checks_values) {
  BenchConfig config;
  config.race = config_.race;
  config.race.checks_ranged_values = checks_values;
  // Fewer rounds where there is no claim.
  config.round_count =
      checks_values ? (config_.race_round_count + 1) / 2 : config_.race_round_count;
  config.wanted = {kRangeRatio, kRangePass2};
  config.is_smoke = config_.is_smoke;
  BenchRace race(config, dir_);
  race.Run([] {});
  race_[checks_values ? "checked" : "counted"] = race.ToJson();
  for (const auto& [name, values] : race.rounds_by_claim()) {
    for (const double value : values) {
      rounds_.Note(checks_values ? name + ", values checked" : name, value);
    }
  }
  errors_.insert(errors_.end(), race.errors().begin(), race.errors().end());
}

nlohmann::json BenchScan::ToJson() const {
  nlohmann::json json = rounds_.ToJson();
  json["beside"] = nlohmann::json::object();
  for (const char* name : kBeside) {
    if (rounds_.has(name)) json["beside"][name] = rounds_.Median(name);
  }
  json["config"] = {{"keys", config_.key_count},
                    {"rounds", config_.round_count},
                    {"seconds", config_.seconds},
                    {"snapshots", config_.snapshot_count},
                    {"snapshot_writers", config_.snapshot_writer_count},
                    {"writers", config_.writer_count},
                    {"written_records", config_.written_record_count},
                    {"visited_records", config_.visited_record_count},
                    {"threads", config_.thread_count},
                    {"smoke", config_.is_smoke}};
  json["rocksdb"] = rocks_;
  json["race"] = race_;
  json["machine"] = DescribeMachine(dir_->path());
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
