// The measured claims about the race: engine and device in turn, in short rounds.
//
// The disk has a burst allowance and neighbours, so figures that are minutes apart are not
// compared. Each comparison is a pair of runs that follow each other.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "engine_race/store.h"
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_meter.h"
#include "harness/load/bare_loops.h"
#include "harness/load/store_runs.h"
#include "harness/measure/table.h"
#include "harness/race/runner.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {
namespace {

constexpr uint32_t kSmallGroupBytes = 16 * 1024;
constexpr char kWriteCpu[] = "CPU of a Write, ns";
constexpr char kPwriteCpu[] = "CPU of a Write staged with pwrite, ns";
constexpr char kBareCpu[] = "CPU of a bare write, a group a thread, ns";
constexpr char kSpreadBareCpu[] = "CPU of a bare write, as many groups as buckets, ns";
constexpr char kReadCpu[] = "CPU of a Read, ns";
constexpr char kFioCpu[] = "CPU of a read by fio's psync, ns";
// These are measured by the bench about the index.
constexpr ClaimTarget kIndexClaims[] = {{"rebuild_speedup", ">= 2.7"},
                                        {"lookup_speedup", ">= 4.0"},
                                        {"open_ratio", "<= 3.0"},
                                        {"peak_rss_64m_mib", "<= 1500"}};

class RaceBench final : public Bench {
 public:
  RaceBench() : Bench("race", "the race: engine and device in turn, in short rounds") {
    Set({"", &race_.thread_count, 4, "--threads"});
    Set({"", &race_.records_per_thread, 100, "--num", "records per thread"});
    Set({"", &race_.seed, kSame, "--seed", "", true});
  }

 private:
  std::vector<BenchPart> Parts() override {
    more_json_["config"]["race"] = race_;
    // The new store and fio's files need the same number of bytes each.
    const uint64_t bytes = 2 * StoreBytes(race_.record_count());
    const auto compare = [this, bytes](const char* name, const ClaimTarget& claim, Phase phase,
                                       const RaceConfig& a, const char* label_a,
                                       const RaceConfig& b, const char* label_b) {
      return BenchPart{name,
                       {claim},
                       [=, this] { return Compare(claim.name, phase, a, label_a, b, label_b); },
                       bytes};
    };
    RaceConfig small = race_;
    small.value_group_bytes = kSmallGroupBytes;
    RaceConfig sequential = race_;
    sequential.keys = KeyShape::kSequential;
    RaceConfig one_bucket = race_;
    one_bucket.keys = KeyShape::kOneBucket;
    return {
        {"device",
         {{kWriteRatio, ">= 0.92"},
          {kReadRatio, ">= 0.95"},
          {kRangeRatio, ">= 0.92"},
          {kRangePass2, ""},
          {kTotalVsDevice, ">= 0.92"}},
         By(&RaceBench::BesideDevice),
         bytes},
        {"write-cpu",
         {{"write_cpu_over_bare", "<= 1.35", "", kWriteCpu, kBareCpu}},
         By(&RaceBench::CompareWriteCpu),
         kTmpfs},
        {"read-cpu",
         {{"read_cpu_over_fio", "<= 1.1", "", kReadCpu, kFioCpu}},
         By(&RaceBench::CompareReadCpu),
         bytes},
        compare("groups", {"write_vs_16k_groups", ">= 1.8"}, Phase::kWrite, race_, "default groups",
                small, "16 KiB groups"),
        {"index", {std::begin(kIndexClaims), std::end(kIndexClaims)}, By(&RaceBench::MeasureIndex)},
        compare("sequential", {"sequential_write_vs_uniform", ">= 0.5"}, Phase::kWrite, sequential,
                "sequential", race_, "uniform, beside sequential"),
        compare("onebucket", {"onebucket_read_vs_uniform", ">= 0.8"}, Phase::kRead, one_bucket,
                "onebucket", race_, "uniform, beside onebucket")};
  }

  uint64_t TmpfsBytes() override { return StoreBytes(cpu_write_records_); }

  Status BesideDevice() {
    return WithMeter([this](RaceMeter* meter) {
      return rounds_.Run({round_count_}, {[&] { return meter->BesideDevice(race_, wanted()); }});
    });
  }

  // Notes the rate of the claim's side over that of the other.
  Status Compare(const char* claim, Phase phase, const RaceConfig& a, const char* label_a,
                 const RaceConfig& b, const char* label_b) {
    return WithMeter([&](RaceMeter* meter) {
      return rounds_.Run({round_count_},
                         {[&] { return meter->Alone(phase, a, label_a); },
                          [&] { return meter->Alone(phase, b, label_b); }},
                         {{claim, std::string(label_a) + ", bytes a second",
                           std::string(label_b) + ", bytes a second"}});
    });
  }

  Status WithMeter(const std::function<Status(RaceMeter*)>& measure) {
    RaceMeter meter(is_smoke(), &rounds_);
    ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
    const Status status = measure(&meter);
    nlohmann::json& phases = more_json_["phases"];
    for (const nlohmann::json& phase : meter.phases()) phases.push_back(phase);
    return status;
  }

  // Compares writes on tmpfs with the bare loop in which each thread fills one group. Two more
  // figures are noted without a claim. One is the bare loop with as many groups as the store has
  // buckets. The other is a store that stages its records with pwrite.
  Status CompareWriteCpu() {
    const uint32_t groups_each = std::max(Options().bucket_count / race_.thread_count, 1U);
    return rounds_.Run(
        {cpu_rounds_},
        {[&] { return StoreWriteCpu(StagingMode::kAuto, kWriteCpu); },
         [&] { return BareWriteCpu(1, kBareCpu); },
         [&] { return BareWriteCpu(groups_each, kSpreadBareCpu); },
         [&] { return StoreWriteCpu(StagingMode::kWritten, kPwriteCpu); }},
        {{"Write over the bare loop with as many groups as buckets", kWriteCpu, kSpreadBareCpu},
         {"Write staged with pwrite over one that is not", kPwriteCpu, kWriteCpu}});
  }

  // Excludes opening and closing: a run of any length has them only once.
  Status StoreWriteCpu(StagingMode mode, const char* figure) {
    const std::string dir = tmpfs_dir() + "/store";
    std::filesystem::remove_all(dir);
    Options options = QuietOptions();
    options.staging_mode = mode;
    std::unique_ptr<Store> store;
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options, dir, &store));
    TimedPoint run;
    const Status status = RunStampedWrites(
        race_.thread_count, cpu_write_records_, [&](uint32_t) { return PutInto(store.get()); },
        &run);
    store.reset();
    std::filesystem::remove_all(dir);
    rounds_.Note(figure, run.CpuNsPerRequest());
    return status;
  }

  Status BareWriteCpu(uint32_t groups_per_thread, const char* figure) {
    BareWrites loop;
    loop.dir = tmpfs_dir() + "/bare";
    loop.thread_count = race_.thread_count;
    loop.record_count = cpu_write_records_;
    loop.groups_per_thread = groups_per_thread;
    std::filesystem::remove_all(loop.dir);
    TimedPoint run;
    const Status status = RunBareWrites(loop, &run);
    std::filesystem::remove_all(loop.dir);
    rounds_.Note(figure, run.CpuNsPerRequest());
    return status;
  }

  // Compares reads by blocking threads with fio's psync job on the same files.
  Status CompareReadCpu() {
    const StoreShape shape = {dir() + "/store", dir(), cpu_read_records_, race_.seed};
    StoreRuns store(shape);
    Options options = DenseStoreOptions();
    // Every read goes to the device, as fio's do.
    options.hot_value_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(store.Fill(options, race_.thread_count));
    const auto read = [&] {
      const TimedPoint reads = store.Read(options, race_.thread_count, cpu_read_seconds_);
      rounds_.Note("reads a second by blocking threads", reads.RequestsPerSecond());
      rounds_.Note(kReadCpu, reads.CpuNsPerRequest());
      return store.status();
    };
    const auto run_fio = [&] {
      return NoteFioReads(shape.dir, shape.record_count, "psync", cpu_read_seconds_,
                          "reads a second by fio's psync", kFioCpu);
    };
    return rounds_.Run({cpu_rounds_}, {read, run_fio});
  }

  // Takes over the figures of the bench that measures the index in rounds of its own.
  Status MeasureIndex() {
    const std::string report_path = dir() + "/index.json";
    std::string only;
    for (const ClaimTarget& claim : kIndexClaims) {
      if (Wants(claim.name)) only += (only.empty() ? "" : ",") + std::string(claim.name);
    }
    std::vector<std::string> command = {SelfPath(), "index",
                                        "--dir",    dir(),
                                        "--only",   only,
                                        "--keys",   std::to_string(index_key_count_()),
                                        "--rounds", std::to_string(round_count_()),
                                        "--json",   report_path};
    if (is_smoke()) command.emplace_back("--smoke");
    const ChildResult child = RunChild(command);
    const nlohmann::json index = LoadJson(report_path);
    if (!child.started || child.exit_code != 0 || !index.is_object()) {
      return Status::IOError(child.error + child.output + ", code " +
                             std::to_string(child.exit_code));
    }
    more_json_["index"] = index;
    for (const ClaimTarget& claim : kIndexClaims) {
      if (index["claims"].contains(claim.name))
        rounds_.Note(claim.name, index["claims"][claim.name]);
    }
    return Status::Ok();
  }

  RaceConfig race_;
  Count32 round_count_{this, "rounds", 3, 1, "--rounds"};
  Count index_key_count_{this, "index_keys", 64000000, 100000, "--index-keys"};
  Count32 cpu_rounds_{this, "cpu_rounds", 9, 1, "--cpu-rounds", "of the comparisons of CPU time"};
  Count cpu_write_records_{this, "cpu_write_records", 1000000,
                           4000, "--tmpfs-num",       "records written on tmpfs"};
  Count cpu_read_records_{this, "cpu_read_records", 400000, 4000};
  Real cpu_read_seconds_{this, "", 2, 0.02};
};

}  // namespace

std::unique_ptr<Bench> MakeRaceBench() { return std::make_unique<RaceBench>(); }

}  // namespace engine_race::harness
