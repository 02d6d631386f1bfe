// The measured claims about the race: engine and device in turn, in short rounds.
//
// The disk has a burst allowance and neighbours, so figures that are minutes apart are not
// compared. Each comparison is a pair of runs that follow each other.
#include <fstream>
#include <memory>

#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/race_cpu.h"
#include "harness/claims/race_meter.h"
#include "harness/load/store_basics.h"
#include "harness/measure/alternating_rounds.h"
#include "harness/race/json.h"
#include "harness/system/child_process.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr uint32_t kSmallGroupBytes = 16 * 1024;
constexpr char kVsSmallGroups[] = "write_vs_16k_groups";
constexpr char kSequentialWrite[] = "sequential_write_vs_uniform";
constexpr char kOneBucketRead[] = "onebucket_read_vs_uniform";
// These are measured by the bench about the index.
constexpr const char* kIndexClaims[] = {"rebuild_speedup", "lookup_speedup", "open_ratio",
                                        "peak_rss_64m_mib"};

constexpr ClaimTarget kTargets[] = {{kWriteRatio, ">= 0.92"},     {kReadRatio, ">= 0.95"},
                                    {kRangeRatio, ">= 0.92"},     {kRangePass2, ""},
                                    {kTotalVsDevice, ">= 0.92"},  {kWriteCpuOverBare, "<= 1.35"},
                                    {kReadCpuOverFio, "<= 1.1"},  {kVsSmallGroups, ">= 1.8"},
                                    {kIndexClaims[0], ">= 2.7"},  {kIndexClaims[1], ">= 4.0"},
                                    {kIndexClaims[2], "<= 3.0"},  {kIndexClaims[3], "<= 1500"},
                                    {kSequentialWrite, ">= 0.5"}, {kOneBucketRead, ">= 0.8"}};

class RaceBench final : public Bench {
 public:
  RaceBench() : Bench("race", "the race: engine and device in turn, in short rounds", kTargets) {}

  std::vector<Setting> Settings() override {
    return {{"", &race_.thread_count, 4, "--threads"},
            {"", &race_.records_per_thread, 100, "--num", "records per thread"},
            {"rounds", &round_count_, 1, "--rounds"},
            {"index_keys", &index_key_count_, 100000, "--index-keys"},
            {"cpu_rounds", &cpu_.round_count, 1, "--cpu-rounds", "of the comparisons of CPU time"},
            {"cpu_write_records", &cpu_.write_record_count, 4000, "--tmpfs-num",
             "records written on tmpfs"},
            {"cpu_read_records", &cpu_.read_record_count, 4000},
            {"", &cpu_.read_seconds, 0.02},
            {"", &race_.seed, kSame, "--seed", "", true}};
  }

 private:
  using Side = Status (RaceMeter::*)(uint32_t round, RaceConfig config, const std::string& label,
                                     double* rate);

  std::vector<BenchPart> Parts() override {
    // The new store and fio's files need the same number of bytes each.
    const uint64_t bytes = 2 * StoreBytes(race_.record_count());
    RaceConfig small = race_;
    small.value_group_bytes = kSmallGroupBytes;
    RaceConfig sequential = race_;
    sequential.keys = KeyShape::kSequential;
    RaceConfig one_bucket = race_;
    one_bucket.keys = KeyShape::kOneBucket;
    return {{"device",
             {kWriteRatio, kReadRatio, kRangeRatio, kRangePass2, kTotalVsDevice},
             [this] { return BesideDevice(); },
             bytes},
            {"groups",
             {kVsSmallGroups},
             [this, small] {
               return Compare(kVsSmallGroups, &RaceMeter::Write, race_, "default groups", small,
                              "16 KiB groups");
             },
             bytes},
            {"sequential",
             {kSequentialWrite},
             [this, sequential] {
               return Compare(kSequentialWrite, &RaceMeter::Write, sequential, "sequential", race_,
                              "uniform, beside sequential");
             },
             bytes},
            {"onebucket",
             {kOneBucketRead},
             [this, one_bucket] {
               return Compare(kOneBucketRead, &RaceMeter::WriteAndRead, one_bucket, "onebucket",
                              race_, "uniform, beside onebucket");
             },
             bytes},
            {"write-cpu", {kWriteCpuOverBare}, [this] { return Cpu().CompareWrites(); }, 0, true},
            {"read-cpu", {kReadCpuOverFio}, [this] { return Cpu().CompareReads(); }, bytes},
            {"index", {std::begin(kIndexClaims), std::end(kIndexClaims)}, [this] {
               return MeasureIndex();
             }}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(cpu_.write_record_count); }
  void AddTo(nlohmann::json* json) override {
    (*json)["config"]["race"] = race_;
    (*json)["phases"] = phases_;
    (*json)["index"] = index_;
  }

  Status BesideDevice() {
    return WithMeter([this](RaceMeter* meter) {
      for (uint32_t round = 0; round < round_count_; ++round) {
        ENGINE_RACE_RETURN_IF_ERROR(meter->BesideDevice(round, race_, wanted()));
      }
      return Status::Ok();
    });
  }

  // Notes the rate of `a` over that of `b`.
  Status Compare(const char* claim, Side side, const RaceConfig& a, const char* label_a,
                 const RaceConfig& b, const char* label_b) {
    return WithMeter([&](RaceMeter* meter) {
      uint32_t number = 0;
      double rate_a = 0;
      double rate_b = 0;
      return AlternatingRounds(round_count_,
                               {[&] { return (meter->*side)(number, a, label_a, &rate_a); },
                                [&] { return (meter->*side)(number, b, label_b, &rate_b); }},
                               [&](uint32_t round) {
                                 rounds_.Note(claim, rate_a / rate_b);
                                 number = round + 1;
                               });
    });
  }

  Status WithMeter(const std::function<Status(RaceMeter*)>& measure) {
    RaceMeter meter(is_smoke(), &rounds_);
    ENGINE_RACE_RETURN_IF_ERROR(meter.Prepare(dir() + "/race"));
    const Status status = measure(&meter);
    phases_.insert(phases_.end(), meter.phases().begin(), meter.phases().end());
    return status;
  }

  RaceCpu Cpu() {
    RaceCpuConfig config = cpu_;
    config.dir = dir();
    config.tmpfs_dir = tmpfs_dir();
    config.thread_count = race_.thread_count;
    config.seed = race_.seed;
    config.is_smoke = is_smoke();
    return RaceCpu(config, &rounds_);
  }

  // Takes over the figures of the bench that measures the index in rounds of its own.
  Status MeasureIndex() {
    const std::string report_path = dir() + "/index.json";
    std::string only;
    for (const char* claim : kIndexClaims) {
      if (Wants(claim)) only += (only.empty() ? "" : ",") + std::string(claim);
    }
    std::vector<std::string> command = {SelfPath(), "index",
                                        "--dir",    dir(),
                                        "--only",   only,
                                        "--keys",   std::to_string(index_key_count_),
                                        "--rounds", std::to_string(round_count_),
                                        "--json",   report_path};
    if (is_smoke()) command.emplace_back("--smoke");
    const ChildResult child = RunChild(command);
    std::ifstream file(report_path);
    index_ = nlohmann::json::parse(file, nullptr, false);
    if (!child.started || child.exit_code != 0 || !index_.is_object()) {
      index_ = nullptr;
      return Status::IOError(child.error + child.output + ", code " +
                             std::to_string(child.exit_code));
    }
    for (const char* claim : kIndexClaims) {
      if (index_["claims"].contains(claim)) rounds_.Note(claim, index_["claims"][claim]);
    }
    return Status::Ok();
  }

  RaceConfig race_;
  uint32_t round_count_ = 3;
  uint64_t index_key_count_ = 64000000;
  // Directories, threads and seed are taken from elsewhere.
  RaceCpuConfig cpu_;
  nlohmann::json phases_ = nlohmann::json::array();
  nlohmann::json index_;
};

}  // namespace

std::unique_ptr<Bench> MakeRaceBench() { return std::make_unique<RaceBench>(); }

}  // namespace harness
