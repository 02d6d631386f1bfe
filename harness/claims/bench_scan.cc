#include "harness/claims/bench_scan.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "harness/claims/bench_race.h"
#include "harness/claims/scan_ranges.h"
#include "harness/claims/scan_written.h"
#include "harness/claims/visit_cost.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/system/child_process.h"
#include "harness/system/device_rates.h"
#include "harness/system/machine.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr char kSnapshot[] = "snapshot_ns";
constexpr char kRangeRatio[] = "range_ratio";
constexpr char kRangePass2[] = "range_pass2_ratio";
constexpr char kVisitCpu[] = "range_cpu_per_visit_ns";
constexpr char kOverFloor[] = "range_visit_over_floor";
constexpr char kWritten[] = "range_written_ratio";
constexpr char kGap[] = "scan_gap_ms";
constexpr char kWriterGrowth[] = "writer_cpu_growth_under_scan";
// Shown beside the claims.
constexpr char kP99Alone[] = "write P99 alone, ns";
constexpr char kP99Scanned[] = "write P99 under a scan, ns";
constexpr char kSnapshotCpu[] = "snapshot, CPU of its thread, ns";
constexpr char kCheckedVisit[] = "checked visit, CPU, ns";
constexpr char kReads[] = "checked visit, the reads by themselves, CPU, ns";
constexpr char kFloor[] = "checked visit, best bare loop, CPU, ns";
constexpr char kInlinedFloor[] = "checked visit, best bare loop with inlined visitors, CPU, ns";
constexpr char kEndsFloor[] = "visit of both ends alone, inlined, best bare loop, CPU, ns";
// Appended to the name of a claim that is measured with the race's visitors.
constexpr char kCounted[] = ", visitors that count";

constexpr ClaimTarget kTargets[] = {
    {kRangesGain, ">= 1.7"},  {kSetup, "<= 300"},        {kVsRocks, ">= 10"},
    {kSnapshot, "<= 200"},    {kRefresh, "<= 50"},       {kRangeRatio, ">= 0.95"},
    {kRangePass2, ">= 0.95"}, {kVisitCpu, "<= 25"},      {kOverFloor, "<= 1.3"},
    {kWritten, ">= 0.85"},    {kWriterGrowth, "<= 0.1"}, {kGap, "<= 200"}};
constexpr const char* kBeside[] = {kP99Alone, kP99Scanned, kSnapshotCpu,  kCheckedVisit,
                                   kReads,    kFloor,      kInlinedFloor, kEndsFloor};

}  // namespace

std::vector<std::string> ScanClaimNames() {
  std::vector<std::string> names;
  for (const ClaimTarget& target : kTargets) names.emplace_back(target.name);
  return names;
}

uint64_t ScanTmpfsBytes(const ScanBenchConfig& config) {
  return std::max({StoreBytes(config.written_record_count), StoreBytes(config.visited_record_count),
                   // The store that is written to and the one that is not.
                   2 * StoreBytes(config.checked_record_count + config.checked_record_count / 10),
                   StoreBytes(config.gap.record_count)});
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
      {Wants(kOverFloor), &BenchScan::CheckedVisits},
      {Wants(kWritten), &BenchScan::WrittenRanges},
      {Wants(kGap), &BenchScan::Gaps},
      {Wants(kWriterGrowth), &BenchScan::Writers},
      {Wants(kRangeRatio) || Wants(kRangePass2), &BenchScan::RangesOnDisk},
      {!config_.is_smoke, &BenchScan::DeviceRates}};
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
  // The first round warms up and is not counted.
  for (uint32_t round = 0; round <= config_.round_count && !MustStop(); ++round) {
    WriterCost costs[2];
    const auto overwrite = [&](bool scanning) {
      costs[scanning] = writers.Overwrite(config_.writer_count, scanning);
      return writers.failure().empty();
    };
    const bool whole = AlternatingRound(
        round, {[&] { return overwrite(true); }, [&] { return overwrite(false); }});
    if (!writers.failure().empty()) return Fail("writers: " + writers.failure());
    if (!whole) return;
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

RaceConfig BenchScan::CheckedRace() const {
  RaceConfig race;
  race.dir = config_.tmpfs_dir;
  race.thread_count = config_.thread_count;
  race.records_per_thread = config_.checked_record_count / config_.thread_count;
  race.seed = config_.seed;
  return WithRaceMemory(race);
}

void BenchScan::CheckedVisits() {
  if (config_.tmpfs_dir.empty()) return;
  RaceConfig race = CheckedRace();
  race.dir += "/store";
  VisitCost cost(race);
  bool ok = cost.Prepare();
  for (uint32_t round = 0; ok && round < config_.round_count && !MustStop(); ++round) {
    VisitCosts costs;
    ok = cost.Round(&costs);
    if (!ok) break;
    rounds_.Note(kCheckedVisit, costs.mean_visit_ns());
    rounds_.Note(kReads, costs.mean_reads_ns());
    rounds_.Note(kFloor, costs.floor_ns);
    rounds_.Note(kInlinedFloor, costs.inlined_floor_ns);
    rounds_.Note(kEndsFloor, costs.ends_floor_ns);
    rounds_.Note(kOverFloor, costs.over_floor());
  }
  if (!ok) Fail("checked visits: " + cost.failure());
  visit_floor_ = cost.floor_shape().ToString();
  std::error_code ignored;
  std::filesystem::remove_all(race.dir, ignored);
}

void BenchScan::WrittenRanges() {
  if (config_.tmpfs_dir.empty()) return;
  ScanWritten written(CheckedRace());
  bool ok = written.Prepare();
  // The first round finds no memory touched and is not counted.
  for (uint32_t round = 0; ok && round <= config_.race_round_count && !MustStop(); ++round) {
    RangeRate rates[2];
    const auto range = [&](bool overwritten) {
      return ok = written.Range(overwritten, &rates[overwritten]);
    };
    const bool whole =
        AlternatingRound(round, {[&] { return range(true); }, [&] { return range(false); }});
    if (!whole || (round == 0 && !config_.is_smoke)) continue;
    rounds_.Note("range of a thread, records a second", rates[0].records_per_second);
    rounds_.Note("range of a thread, a tenth overwritten, records a second",
                 rates[1].records_per_second);
    rounds_.Note("range, CPU of a visit, a tenth overwritten over none",
                 rates[1].cpu_ns / rates[0].cpu_ns);
    rounds_.Note(kWritten, rates[1].records_per_second / rates[0].records_per_second);
  }
  if (!ok) Fail("ranges of written buckets: " + written.failure());
}

void BenchScan::Gaps() {
  if (config_.tmpfs_dir.empty()) return;
  ScanGapShape shape = config_.gap;
  shape.dir = config_.tmpfs_dir + "/store";
  shape.seed = config_.seed;
  ScanGap gap(shape);
  bool ok = gap.Prepare();
  // The claim is about the first mix. In the second one, slow scans are harder to tell from fast
  // ones because they are less slow. In the third one, few scans hold all of a small memory.
  std::vector<SlowScans> mixes(3);
  mixes[1].visit = mixes[2].visit = std::chrono::milliseconds(1);
  mixes[2].count = 8;
  mixes[2].memory_budget_bytes = 16 * 1024 * 1024;
  for (uint32_t round = 0; ok && round < config_.race_round_count && !MustStop(); ++round) {
    for (const SlowScans& slow : mixes) {
      FastScan alone;
      FastScan beside;
      ok = ok && gap.Run(slow, /*alone=*/true, &alone) && gap.Run(slow, /*alone=*/false, &beside);
      if (!ok) break;
      const double gap_ms = beside.longest_gap_ms() - alone.longest_gap_ms();
      const std::string beside_slow = ", beside " + slow.ToString();
      rounds_.Note("longest gap of a scan, ms" + beside_slow, beside.longest_gap_ms());
      rounds_.Note("longest gap of a scan, ms, before it alone" + beside_slow,
                   alone.longest_gap_ms());
      rounds_.Note("records a second of a scan" + beside_slow, beside.records_per_second);
      rounds_.Note("visits a second of each slow scan" + beside_slow,
                   beside.slow_visits_per_second);
      if (&slow == mixes.data()) rounds_.Note(kGap, gap_ms);
    }
  }
  if (!ok) Fail("gaps: " + gap.failure());
}

// Measures the range claims of bench_race in rounds of its own. Runs the race's visitors, which
// check every value, and visitors that only count, as fio's reader does.
void BenchScan::RangesOnDisk() {
  for (const bool checks_values : {true, false}) RangeOnDisk(checks_values);
}

void BenchScan::RangeOnDisk(bool checks_values) {
  BenchConfig config;
  config.race = config_.race;
  config.race.checks_ranged_values = checks_values;
  // Fewer rounds for figures that are not claims.
  config.round_count =
      checks_values ? config_.race_round_count : (config_.race_round_count + 1) / 2;
  config.wanted = {kRangeRatio, kRangePass2};
  config.is_smoke = config_.is_smoke;
  BenchRace race(config, dir_);
  race.Run([] {});
  race_[checks_values ? "checked" : "counted"] = race.ToJson();
  for (const std::string& name : config.wanted) {
    if (!race.rounds().has(name)) continue;
    for (const double value : race.rounds().rounds(name)) {
      rounds_.Note(checks_values ? name : name + kCounted, value);
    }
  }
  errors_.insert(errors_.end(), race.errors().begin(), race.errors().end());
}

void BenchScan::DeviceRates() {
  constexpr uint64_t kDeviceBytes = uint64_t{2} << 30;
  device_ = MeasureDeviceRates(dir_->path(), kDeviceBytes);
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
                    {"checked_records", config_.checked_record_count},
                    {"gap_records", config_.gap.record_count},
                    {"bare_loop", visit_floor_},
                    {"threads", config_.thread_count},
                    {"smoke", config_.is_smoke}};
  json["rocksdb"] = rocks_;
  json["race"] = race_;
  json["machine"] = DescribeMachine(dir_->path());
  json["machine"]["device"] = device_;
  json["errors"] = errors_;
  return json;
}

}  // namespace harness
