// The measured claims about scans: short ranges by iterators, snapshots, and ranges over everything
// by many threads, on the disk and in memory. Further claims cover scans beside writers, and slow
// scans beside a fast one.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_meter.h"
#include "harness/claims/scan_seeks.h"
#include "harness/claims/scan_values.h"
#include "harness/claims/visit_cost.h"
#include "harness/load/scan_writers.h"
#include "harness/load/store_basics.h"
#include "harness/load/store_runs.h"
#include "harness/opponents/rocks.h"
#include "harness/race/runner.h"

namespace engine_race::harness {
namespace {

constexpr char kSnapshot[] = "snapshot_ns";
constexpr char kVisitCpu[] = "range_cpu_per_visit_ns";
constexpr char kOverFloor[] = "range_visit_over_floor";
constexpr char kUntouchedRate[] = "range of a thread, records a second";
constexpr char kWrittenRate[] = "range of a thread, a tenth overwritten, records a second";
constexpr char kGap[] = "scan_gap_ms";
// Figures beside the claims.
constexpr char kCpuAlone[] = "write, CPU alone, ns";
constexpr char kCpuScanned[] = "write, CPU under a scan, ns";
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

class ScanBench final : public Bench {
 public:
  ScanBench()
      : Bench("scan", "iterators, snapshots and ranges beside RocksDB, the device and writers") {
    Set({"gap_records", &gap_.record_count, 4000});
    Set({"", &gap_.seconds, 0.02});
    Set({"", &gap_.warm_up_seconds, 0.02});
    Set({"", &race_.thread_count, 4});
    Set({"", &race_.records_per_thread, 100, "--num", "records per thread on the disk"});
  }

 private:
  std::vector<BenchPart> Parts() override {
    return {{"iterators",
             {{"select_random_ranges_gain", ">= 1.7", "", kEachRange, kKeptRange},
              {kSetup, "<= 300"},
              {kRefresh, "<= 50"}},
             OnRanges(&ScanRanges::CompareIterators)},
            {"rocksdb",
             {{"vs_rocksdb_ranges", ">= 10", "", kRocksRange, kLatestRange}},
             OnRanges([this](ScanRanges* ranges) {
               return ranges->CompareRocks(make_rocks_, &more_json_["rocksdb"]);
             }),
             {0, false, make_rocks_ ? "" : kNoRocks}},
            {"snapshots", {{kSnapshot, "<= 200"}}, By(&ScanBench::Snapshots), kTmpfs},
            {"disk",
             {{kRangeRatio, ">= 0.95"}, {kRangePass2, ">= 0.95"}},
             By(&ScanBench::RangesOnDisk),
             2 * StoreBytes(race_.record_count())},
            {"visits", {{kVisitCpu, "<= 25"}}, By(&ScanBench::Visits), kTmpfs},
            {"checked-visits", {{kOverFloor, "<= 1.3"}}, By(&ScanBench::CheckedVisits), kTmpfs},
            {"written",
             {{"range_written_ratio", ">= 0.85", "", kWrittenRate, kUntouchedRate}},
             By(&ScanBench::WrittenRanges),
             kTmpfs},
            {"writers",
             {{"writer_cpu_growth_under_scan", "<= 0.1", "", kCpuScanned, kCpuAlone,
               RatioForm::kGrowth}},
             By(&ScanBench::Writers),
             kTmpfs},
            {"gaps", {{kGap, "<= 200"}}, By(&ScanBench::Gaps), kTmpfs},
            {"short-warm",
             {{"short_range_warm_vs_rocksdb", ">= 3", "", kShortRange, kShortRangeRocks},
              {"short_iterator_warm_vs_rocksdb", ">= 3", "", kShortWalk, kShortWalkRocks}},
             OnValues(warm_record_count_,
                      [this](ScanValues* values) {
                        return values->CompareWarm(make_records_, &more_json_["rocksdb_warm"]);
                      }),
             {3 * StoreBytes(warm_record_count_), false, make_records_ ? "" : kNoRocks}},
            {"short-cold",
             {{"short_range_cold_vs_rocksdb", ">= 1.3", "", kColdRange, kColdRangeRocks}},
             OnValues(cold_record_count_,
                      [this](ScanValues* values) {
                        return values->CompareCold(make_records_, &more_json_["rocksdb_cold"]);
                      }),
             {4 * StoreBytes(cold_record_count_), false, make_records_ ? "" : kNoRocks}},
            {"first-warm",
             {{kFirstWarm, "<= 20"}},
             OnValues(warm_record_count_,
                      [](ScanValues* values) { return values->FirstRecords(true); })},
            {"first-cold",
             {{kFirstCold, "<= 300"}},
             OnValues(cold_record_count_,
                      [](ScanValues* values) { return values->FirstRecords(false); }),
             2 * StoreBytes(cold_record_count_)},
            {"prefetches",
             {{kPrefetchDefault, ">= 0.95"}},
             OnValues(cold_record_count_, &ScanValues::Prefetches),
             2 * StoreBytes(cold_record_count_)},
            {"whole-walks",
             {{"snapshot_scan_vs_live", ">= 0.8", "", kSnapshotScan, kLiveScan},
              {"iterator_walk_vs_live", ">= 0.7", "", kIteratorWalk, kLiveScan}},
             OnValues(cold_record_count_, &ScanValues::WholeWalks),
             2 * StoreBytes(cold_record_count_)},
            {"memory",
             {{"snapshot_hot_reads_vs_live", ">= 0.9", "", kSnapshotHotReads, kLiveHotReads},
              {"scan_from_memory", ">= 4", "", kSecondWalk, kFirstWalk}},
             OnValues(warm_record_count_,
                      [this](ScanValues* values) { return values->InMemory(hot_key_count_); })},
            {"sparse",
             {{"sparse_seek_growth", "<= 2", "", kSparseSeekWide, kSparseSeek}},
             [this] { return CompareSparseSeeks(ShapeOf(tmpfs_dir(), 10), &rounds_); },
             kTmpfs},
            {"deletes",
             {{kSeekAfterDeletes, "<= 60"}},
             [this] { return SeekAfterDeletes(ShapeOf(dir(), deleted_from_count_), &rounds_); }},
            {"board",
             {{kBoardCost, "<= 50"}},
             [this] { return MeasureBoardCost({.round_count = round_count_}, &rounds_); }},
            {"paged-walks", {{kPagedKeyWalk, ">= 8"}}, [this] {
               return WalkPagedKeys(ShapeOf(dir(), key_count_), &rounds_);
             }}};
  }

  uint64_t TmpfsBytes() override {
    return std::max({StoreBytes(written_record_count_), StoreBytes(visited_record_count_),
                     // The store that is written to and the one that is not.
                     2 * StoreBytes(checked_record_count_ + checked_record_count_ / 10),
                     StoreBytes(gap_.record_count)});
  }

  Status Snapshots() {
    ScanWriters writers(tmpfs_dir() + "/store", written_record_count_, seed_);
    const auto take = [&] {
      SnapshotCost cost;
      ENGINE_RACE_RETURN_IF_ERROR(
          writers.TakeSnapshots(snapshot_writer_count_, snapshot_count_, &cost));
      rounds_.Note(kSnapshot, cost.wall_ns);
      rounds_.Note(kSnapshotCpu, cost.cpu_ns);
      rounds_.Note("writes a second beside snapshots", cost.writes_per_second);
      return Status::Ok();
    };
    return rounds_.Run({round_count_}, {take});
  }

  Status Visits() {
    StoreRuns runs({tmpfs_dir() + "/store", dir(), visited_record_count_, seed_});
    ENGINE_RACE_RETURN_IF_ERROR(runs.Fill(QuietOptions(), thread_count_));
    const auto range = [&] {
      const auto passes = runs.Ranges(QuietOptions(), thread_count_, kRangePasses);
      double sum = 0;
      for (uint32_t pass = 0; pass < kRangePasses; ++pass) {
        const double visit_ns = passes[pass].CpuNsPerRequest() / thread_count_;
        rounds_.Note("range, CPU of a visit, pass " + std::to_string(pass + 1) + ", ns", visit_ns);
        sum += visit_ns;
      }
      rounds_.Note(kVisitCpu, sum / kRangePasses);
      return runs.status();
    };
    return rounds_.Run({round_count_}, {range});
  }

  Status CheckedVisits() {
    VisitCost cost(CheckedRace("/store"));
    ENGINE_RACE_RETURN_IF_ERROR(cost.Prepare());
    more_json_["config"]["bare_loop"] = cost.floor_shape().ToString();
    const auto round = [&] {
      VisitCosts costs;
      ENGINE_RACE_RETURN_IF_ERROR(cost.Round(&costs));
      rounds_.Note(kCheckedVisit, costs.mean_visit_ns());
      rounds_.Note(kReads, costs.mean_reads_ns());
      rounds_.Note(kFloor, costs.floor_ns);
      rounds_.Note(kInlinedFloor, costs.inlined_floor_ns);
      rounds_.Note(kEndsFloor, costs.ends_floor_ns);
      rounds_.Note(kOverFloor, costs.over_floor());
      return Status::Ok();
    };
    return rounds_.Run({round_count_}, {round});
  }

  // Ranges over two stores with the same keys. Since their indexes were built, part of the keys of
  // one was overwritten, and nothing was written to the other. Both stay open, so that rounds
  // alternate within seconds.
  Status WrittenRanges() {
    constexpr const char* kCpu[] = {"range of a thread, CPU of a visit, ns",
                                    "range of a thread, a tenth overwritten, CPU of a visit, ns"};
    VisitedStore stores[] = {VisitedStore(CheckedRace("/untouched")),
                             VisitedStore(CheckedRace("/overwritten"))};
    for (VisitedStore& store : stores) {
      ENGINE_RACE_RETURN_IF_ERROR(store.Write());
      ENGINE_RACE_RETURN_IF_ERROR(store.Open());
    }
    ENGINE_RACE_RETURN_IF_ERROR(stores[true].OverwriteTenth());
    const auto range = [&](bool overwritten) {
      VisitPasses passes;
      ENGINE_RACE_RETURN_IF_ERROR(stores[overwritten].Visit(&passes));
      const double records = static_cast<double>(stores[overwritten].record_count()) * kRangePasses;
      rounds_.Note(overwritten ? kWrittenRate : kUntouchedRate,
                   records / (passes[0].seconds + passes[1].seconds));
      rounds_.Note(kCpu[overwritten], (passes[0].cpu_ns + passes[1].cpu_ns) / kRangePasses);
      return Status::Ok();
    };
    // The first round finds no memory touched.
    return rounds_.Run(
        {.count = race_round_count_, .warms_up = !is_smoke()},
        {[&] { return range(true); }, [&] { return range(false); }},
        {{"range, CPU of a visit, a tenth overwritten over none", kCpu[true], kCpu[false]}});
  }

  Status Gaps() {
    ScanGapShape shape = gap_;
    shape.dir = tmpfs_dir() + "/store";
    shape.seed = seed_;
    ScanGap gap(shape);
    // The claim is about the first mix. In the second one, slow scans are harder to tell from fast
    // ones because they are less slow. In the third one, few scans hold all of a small memory.
    std::vector<SlowScans> mixes(3);
    mixes[1].visit = mixes[2].visit = std::chrono::milliseconds(1);
    mixes[2].count = 8;
    mixes[2].memory_budget_bytes = 16 * 1024 * 1024;
    std::vector<Turn> turns;
    turns.reserve(mixes.size());
    for (const SlowScans& slow : mixes) {
      turns.emplace_back([&] {
        FastScan alone;
        FastScan beside;
        ENGINE_RACE_RETURN_IF_ERROR(gap.Run(slow, /*alone=*/true, &alone));
        ENGINE_RACE_RETURN_IF_ERROR(gap.Run(slow, /*alone=*/false, &beside));
        const std::string beside_slow = ", beside " + slow.ToString();
        rounds_.Note("longest gap of a scan, ms" + beside_slow, beside.longest_gap_ms());
        rounds_.Note("longest gap of a scan, ms, before it alone" + beside_slow,
                     alone.longest_gap_ms());
        rounds_.Note("records a second of a scan" + beside_slow, beside.records_per_second);
        rounds_.Note("visits a second of each slow scan" + beside_slow,
                     beside.slow_visits_per_second);
        if (&slow == mixes.data()) {
          rounds_.Note(kGap, beside.longest_gap_ms() - alone.longest_gap_ms());
        }
        return Status::Ok();
      });
    }
    ENGINE_RACE_RETURN_IF_ERROR(gap.Prepare());
    return rounds_.Run({race_round_count_}, turns);
  }

  Status Writers() {
    ScanWriters writers(tmpfs_dir() + "/store", written_record_count_, seed_);
    const auto overwrite = [&](bool scanning) {
      WriterCost cost;
      ENGINE_RACE_RETURN_IF_ERROR(writers.Overwrite(writer_count_, scanning, &cost));
      rounds_.Note(scanning ? kCpuScanned : kCpuAlone, cost.cpu_ns);
      rounds_.Note(scanning ? "writes a second under a scan" : "writes a second alone",
                   cost.writes_per_second);
      rounds_.Note(scanning ? kP99Scanned : kP99Alone, static_cast<double>(cost.p99_ns));
      if (scanning) {
        rounds_.Note(
            "records scanned beside a write",
            static_cast<double>(cost.visited_count) / static_cast<double>(written_record_count_()));
      }
      return Status::Ok();
    };
    return rounds_.Run({.count = round_count_, .warms_up = !is_smoke()},
                       {[&] { return overwrite(true); }, [&] { return overwrite(false); }});
  }

  // Measures ranges in rounds of their own. Runs the race's visitors, which check every value, and
  // visitors that only count, as fio's reader does.
  Status RangesOnDisk() {
    RaceConfig race = race_;
    race.seed = seed_;
    RaceMeter meter(is_smoke(), &rounds_);
    ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
    for (const bool checks_values : {true, false}) {
      race.checks_ranged_values = checks_values;
      // Fewer rounds for figures that are not claims.
      const uint32_t round_count = checks_values ? race_round_count_ : (race_round_count_ + 1) / 2;
      const auto range = [&] {
        return meter.BesideDevice(race, {kRangeRatio, kRangePass2}, checks_values ? "" : kCounted);
      };
      ENGINE_RACE_RETURN_IF_ERROR(rounds_.Run({round_count}, {range}));
    }
    more_json_["race"] = {{"config", race}, {"phases", meter.phases()}};
    if (!is_smoke()) NoteDevice(uint64_t{2} << 30);
    return Status::Ok();
  }

  RaceConfig CheckedRace(const char* store) const {
    RaceConfig race;
    race.dir = tmpfs_dir() + store;
    race.thread_count = thread_count_;
    race.records_per_thread = checked_record_count_ / thread_count_;
    race.seed = seed_;
    return WithRaceMemory(race);
  }

  ScanShape ShapeOf(const std::string& dir, uint64_t key_count) const {
    return {dir, key_count, round_count_, seconds_, seed_};
  }

  // A part that measures short ranges over keys in memory.
  std::function<Status()> OnRanges(std::function<Status(ScanRanges*)> measure) {
    return [this, measure = std::move(measure)] {
      ScanRanges ranges(ShapeOf(dir(), key_count_), &rounds_);
      ENGINE_RACE_RETURN_IF_ERROR(ranges.Prepare());
      return measure(&ranges);
    };
  }

  // A part on a store of so many records. A warm store fits into memory. The values of few buckets
  // are mostly in their logs.
  std::function<Status()> OnValues(uint64_t record_count,
                                   std::function<Status(ScanValues*)> measure) {
    return [this, record_count, measure = std::move(measure)] {
      const bool is_warm = record_count == warm_record_count_;
      ScanShape shape = ShapeOf(dir(), record_count);
      shape.seconds /= 2;
      Options options = QuietOptions();
      options.bucket_count = is_warm ? warm_bucket_count_ : cold_bucket_count_;
      if (!is_warm) {
        shape.round_count = race_round_count_;
        options.memory_budget_bytes = uint64_t{256} << 20;
      }
      ScanValues values(shape, options, &rounds_);
      ENGINE_RACE_RETURN_IF_ERROR(values.Prepare());
      return measure(&values);
    };
  }

  Count key_count_{this, "keys", 20000000, 100000, "--keys", "of the short ranges"};
  Count deleted_from_count_{this, "deleted_from_keys", 1000000, 20000};
  Count32 round_count_{this, "rounds", 9, 1, "--rounds"};
  Real seconds_{this, "seconds", 1, 0.02, "--seconds", "of each timed run"};
  Count snapshot_count_{this, "snapshots", 1000000, 20000, "--snapshots", "in a round"};
  Count32 snapshot_writer_count_{this, "snapshot_writers", 8};
  Count32 writer_count_{this, "writers", 4};
  Count written_record_count_{this, "written_records", 400000,
                              4000, "--written-num",   "records of a store under writers"};
  Count visited_record_count_{this, "visited_records", 262144,
                              4000, "--visited-num",   "records visited on tmpfs"};
  Count checked_record_count_{this, "checked_records", 524288, 4000};
  Count warm_record_count_{this, "warm_records", 65536,
                           8000, "--warm-num",   "records of a store in memory"};
  Count cold_record_count_{this,  "cold_records", 524288,
                           12000, "--cold-num",   "records of a store on the disk"};
  Count32 warm_bucket_count_{this, "warm_buckets", 64, 32};
  Count32 cold_bucket_count_{this, "cold_buckets", 1024, 32};
  Count hot_key_count_{this, "hot_keys", 10000, 1000, "--hot-keys", "read at a snapshot and live"};
  Count32 thread_count_{this, "threads", 64, 4, "--threads", "that range"};
  Count32 race_round_count_{this, "", 5, 1, "--race-rounds", "on the disk"};
  Count seed_{this, "", 1, kSame, "--seed", "", true};
  ScanGapShape gap_;  // its directory is set here
  RaceConfig race_;   // ranges on the disk
  // The opponent; empty where there is none, and then its claim is not measured.
  const MakeRocksFn make_rocks_ = RocksMaker();
  const MakeRocksRecordsFn make_records_ = RocksRecordsMaker();
};

}  // namespace

std::unique_ptr<Bench> MakeScanBench() { return std::make_unique<ScanBench>(); }

}  // namespace engine_race::harness
