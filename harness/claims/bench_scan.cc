// The measured claims about scans: short ranges by iterators, snapshots, and ranges over everything
// by many threads, on the disk and in memory. Further claims cover scans beside writers, and slow
// scans beside a fast one.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_meter.h"
#include "harness/claims/scan_ranges.h"
#include "harness/claims/scan_written.h"
#include "harness/claims/visit_cost.h"
#include "harness/load/scan_gap.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/opponents/rocks.h"
#include "harness/race/json.h"
#include "harness/system/device_rates.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr char kSnapshot[] = "snapshot_ns";
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

Status StatusOf(const std::string& failure) {
  return failure.empty() ? Status::Ok() : Status::IOError(failure);
}

struct ScanBenchConfig {
  uint64_t key_count = 20000000;
  uint32_t round_count = 9;
  double seconds = 1;  // of each timed run that has no end of its own
  uint64_t snapshot_count = 1000000;
  uint32_t snapshot_writer_count = 8;
  uint32_t writer_count = 4;
  uint64_t written_record_count = 400000;  // of a store on tmpfs that is written to
  uint64_t visited_record_count = 262144;  // of the store on tmpfs that is ranged over
  uint64_t checked_record_count = 524288;  // likewise, where values are checked
  uint32_t thread_count = 64;              // which range over these
  ScanGapShape gap;                        // its directory is set here
  RaceConfig race;                         // ranges on the disk
  uint32_t race_round_count = 5;
  uint64_t seed = 1;
  // The opponent; empty where there is none, and then that claim is not measured.
  MakeRocksFn make_rocks = RocksMaker();
};

class ScanBench final : public Bench {
 public:
  ScanBench()
      : Bench("scan", "iterators, snapshots and ranges beside RocksDB, the device and writers",
              kTargets) {}

  std::vector<Setting> Settings() override {
    ScanBenchConfig& c = config_;
    return {{"keys", &c.key_count, 100000, "--keys", "of the short ranges"},
            {"rounds", &c.round_count, 1, "--rounds"},
            {"seconds", &c.seconds, 0.02, "--seconds", "of each timed run"},
            {"snapshots", &c.snapshot_count, 20000, "--snapshots", "in a round"},
            {"snapshot_writers", &c.snapshot_writer_count},
            {"writers", &c.writer_count},
            {"written_records", &c.written_record_count, 4000, "--written-num",
             "records of a store under writers"},
            {"visited_records", &c.visited_record_count, 4000, "--visited-num",
             "records visited on tmpfs"},
            {"checked_records", &c.checked_record_count, 4000},
            {"gap_records", &c.gap.record_count, 4000},
            {"", &c.gap.seconds, 0.02},
            {"", &c.gap.warm_up_seconds, 0.02},
            {"threads", &c.thread_count, 4, "--threads", "that range"},
            {"", &c.race.thread_count, 4},
            {"", &c.race.records_per_thread, 100, "--num", "records per thread on the disk"},
            {"", &c.race_round_count, 1, "--race-rounds", "on the disk"},
            {"", &c.seed, kSame, "--seed", "", true}};
  }

 private:
  std::vector<BenchPart> Parts() override;
  uint64_t TmpfsBytes() override;
  void AddTo(nlohmann::json* json) override;

  Status Iterators();
  Status Rocks();
  Status Snapshots();
  Status Visits();
  Status CheckedVisits();
  Status WrittenRanges();
  Status Gaps();
  Status Writers();
  Status RangesOnDisk();
  RaceConfig CheckedRace() const;
  ScanRangesShape RangesShape() const {
    return {dir(), config_.key_count, config_.round_count, config_.seconds, config_.seed};
  }

  ScanBenchConfig config_;
  nlohmann::json rocks_;
  nlohmann::json race_;
  nlohmann::json visit_floor_;
  nlohmann::json device_;
};

std::vector<BenchPart> ScanBench::Parts() {
  const auto part = [this](Status (ScanBench::*measure)()) {
    return [this, measure] { return (this->*measure)(); };
  };
  return {{"iterators", {kRangesGain, kSetup, kRefresh}, part(&ScanBench::Iterators)},
          {"rocksdb",
           {kVsRocks},
           part(&ScanBench::Rocks),
           0,
           false,
           config_.make_rocks ? "" : kNoRocks},
          {"snapshots", {kSnapshot}, part(&ScanBench::Snapshots), 0, true},
          {"visits", {kVisitCpu}, part(&ScanBench::Visits), 0, true},
          {"checked-visits", {kOverFloor}, part(&ScanBench::CheckedVisits), 0, true},
          {"written", {kWritten}, part(&ScanBench::WrittenRanges), 0, true},
          {"gaps", {kGap}, part(&ScanBench::Gaps), 0, true},
          {"writers", {kWriterGrowth}, part(&ScanBench::Writers), 0, true},
          {"disk",
           {kRangeRatio, kRangePass2},
           part(&ScanBench::RangesOnDisk),
           2 * StoreBytes(config_.race.record_count())}};
}

uint64_t ScanBench::TmpfsBytes() {
  const ScanBenchConfig& c = config_;
  return std::max({StoreBytes(c.written_record_count), StoreBytes(c.visited_record_count),
                   // The store that is written to and the one that is not.
                   2 * StoreBytes(c.checked_record_count + c.checked_record_count / 10),
                   StoreBytes(c.gap.record_count)});
}

Status ScanBench::Iterators() {
  ScanRanges ranges(RangesShape(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(ranges.Prepare());
  return ranges.CompareIterators();
}

Status ScanBench::Rocks() {
  ScanRanges ranges(RangesShape(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(ranges.Prepare());
  const Status status = ranges.CompareRocks(config_.make_rocks);
  rocks_ = ranges.rocks();
  return status;
}

Status ScanBench::Snapshots() {
  ScanWriters writers(tmpfs_dir() + "/store", config_.written_record_count, config_.seed);
  for (uint32_t round = 0; round < config_.round_count; ++round) {
    const SnapshotCost cost =
        writers.TakeSnapshots(config_.snapshot_writer_count, config_.snapshot_count);
    if (!writers.failure().empty()) return Status::IOError(writers.failure());
    rounds_.Note(kSnapshot, cost.wall_ns);
    rounds_.Note(kSnapshotCpu, cost.cpu_ns);
    rounds_.Note("writes a second beside snapshots", cost.writes_per_second);
  }
  return Status::Ok();
}

Status ScanBench::Visits() {
  constexpr uint32_t kPasses = 2;
  StoreRuns runs({tmpfs_dir() + "/store", dir(), config_.visited_record_count, config_.seed});
  runs.Write(QuietOptions(), config_.thread_count);
  ENGINE_RACE_RETURN_IF_ERROR(runs.status());
  for (uint32_t round = 0; round < config_.round_count; ++round) {
    const std::vector<TimedRun> passes = runs.Ranges(QuietOptions(), config_.thread_count, kPasses);
    double sum = 0;
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      ENGINE_RACE_RETURN_IF_ERROR(runs.status());
      const double visit_ns = passes[pass].cpu_ns() / config_.thread_count;
      rounds_.Note("range, CPU of a visit, pass " + std::to_string(pass + 1) + ", ns", visit_ns);
      sum += visit_ns;
    }
    rounds_.Note(kVisitCpu, sum / kPasses);
  }
  runs.Remove(QuietOptions());
  return Status::Ok();
}

Status ScanBench::Writers() {
  ScanWriters writers(tmpfs_dir() + "/store", config_.written_record_count, config_.seed);
  // The first round warms up and is not counted.
  for (uint32_t round = 0; round <= config_.round_count; ++round) {
    WriterCost costs[2];
    const auto overwrite = [&](bool scanning) {
      costs[scanning] = writers.Overwrite(config_.writer_count, scanning);
      return StatusOf(writers.failure());
    };
    ENGINE_RACE_RETURN_IF_ERROR(AlternatingRound(
        round, {[&] { return overwrite(true); }, [&] { return overwrite(false); }}));
    if (round == 0 && !is_smoke()) continue;
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
  return Status::Ok();
}

RaceConfig ScanBench::CheckedRace() const {
  RaceConfig race;
  race.dir = tmpfs_dir();
  race.thread_count = config_.thread_count;
  race.records_per_thread = config_.checked_record_count / config_.thread_count;
  race.seed = config_.seed;
  return WithRaceMemory(race);
}

Status ScanBench::CheckedVisits() {
  RaceConfig race = CheckedRace();
  race.dir += "/store";
  VisitCost cost(race);
  bool ok = cost.Prepare();
  for (uint32_t round = 0; ok && round < config_.round_count; ++round) {
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
  visit_floor_ = cost.floor_shape().ToString();
  std::error_code ignored;
  std::filesystem::remove_all(race.dir, ignored);
  return StatusOf(cost.failure());
}

Status ScanBench::WrittenRanges() {
  ScanWritten written(CheckedRace());
  if (!written.Prepare()) return Status::IOError(written.failure());
  // The first round finds no memory touched and is not counted.
  for (uint32_t round = 0; round <= config_.race_round_count; ++round) {
    RangeRate rates[2];
    const auto range = [&](bool overwritten) {
      written.Range(overwritten, &rates[overwritten]);
      return StatusOf(written.failure());
    };
    ENGINE_RACE_RETURN_IF_ERROR(
        AlternatingRound(round, {[&] { return range(true); }, [&] { return range(false); }}));
    if (round == 0 && !is_smoke()) continue;
    rounds_.Note("range of a thread, records a second", rates[0].records_per_second);
    rounds_.Note("range of a thread, a tenth overwritten, records a second",
                 rates[1].records_per_second);
    rounds_.Note("range, CPU of a visit, a tenth overwritten over none",
                 rates[1].cpu_ns / rates[0].cpu_ns);
    rounds_.Note(kWritten, rates[1].records_per_second / rates[0].records_per_second);
  }
  return Status::Ok();
}

Status ScanBench::Gaps() {
  ScanGapShape shape = config_.gap;
  shape.dir = tmpfs_dir() + "/store";
  shape.seed = config_.seed;
  ScanGap gap(shape);
  bool ok = gap.Prepare();
  // The claim is about the first mix. In the second one, slow scans are harder to tell from fast
  // ones because they are less slow. In the third one, few scans hold all of a small memory.
  std::vector<SlowScans> mixes(3);
  mixes[1].visit = mixes[2].visit = std::chrono::milliseconds(1);
  mixes[2].count = 8;
  mixes[2].memory_budget_bytes = 16 * 1024 * 1024;
  for (uint32_t round = 0; ok && round < config_.race_round_count; ++round) {
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
  return StatusOf(gap.failure());
}

// Measures ranges in rounds of their own. Runs the race's visitors, which check every value, and
// visitors that only count, as fio's reader does.
Status ScanBench::RangesOnDisk() {
  RaceConfig race = config_.race;
  race.seed = config_.seed;
  RaceMeter meter(is_smoke(), &rounds_);
  ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
  for (const bool checks_values : {true, false}) {
    race.checks_ranged_values = checks_values;
    // Fewer rounds for figures that are not claims.
    const uint32_t round_count =
        checks_values ? config_.race_round_count : (config_.race_round_count + 1) / 2;
    for (uint32_t round = 0; round < round_count; ++round) {
      ENGINE_RACE_RETURN_IF_ERROR(meter.BesideDevice(round, race, {kRangeRatio, kRangePass2},
                                                     checks_values ? "" : kCounted));
    }
  }
  race_ = {{"config", race}, {"phases", meter.phases()}};
  constexpr uint64_t kDeviceBytes = uint64_t{2} << 30;
  if (!is_smoke()) device_ = MeasureDeviceRates(dir(), kDeviceBytes);
  return Status::Ok();
}

void ScanBench::AddTo(nlohmann::json* json) {
  (*json)["beside"] = nlohmann::json::object();
  for (const char* name : kBeside) {
    if (rounds_.has(name)) (*json)["beside"][name] = rounds_.Median(name);
  }
  (*json)["config"]["bare_loop"] = visit_floor_;
  (*json)["rocksdb"] = rocks_;
  (*json)["race"] = race_;
  (*json)["machine"]["device"] = device_;
}

}  // namespace

std::unique_ptr<Bench> MakeScanBench() { return std::make_unique<ScanBench>(); }

}  // namespace harness
