// The measured claims about space: what a store that is overwritten takes and writes, how fast it
// is then, and what reclaim costs. docs/space.md explains them.
//
// Each measurement makes its stores and removes them.
#include "harness/claims/bench.h"
#include "harness/claims/benches.h"
#include "harness/claims/space_measurements.h"
#include "harness/load/store_basics.h"

namespace harness {
namespace {

constexpr ClaimTarget kTargets[] = {{"overwrite_space_amplification", "<= 1.5"},
                                    {"overwrite_write_amplification", "<= 2.5"},
                                    {"overwrite_vs_fresh", ">= 0.35"},
                                    {"zipf_write_amplification", "<= 1.6"},
                                    {"read_p99_under_reclaim", "<= 2.0"},
                                    {"no_overwrite_cost", "<= 0.02"},
                                    {"vs_rocksdb_overwrite", ">= 3"}};

class SpaceBench final : public Bench {
 public:
  SpaceBench()
      : Bench("space", "what overwritten stores take and write, and what reclaim costs", kTargets) {
  }

  std::vector<Setting> Settings() override {
    SpaceConfig& c = config_;
    return {
        {"data_bytes", &c.data_bytes, 8 << 20, "--data", "values of a data set, as in 8GB"},
        {"passes", &c.pass_count, 2, "--passes", "how often a data set is overwritten"},
        {"threads", &c.thread_count, 4, "--threads", "that write"},
        {"rounds", &c.round_count, 1, "--rounds", "of turns that are compared"},
        {"seconds", &c.seconds, 0.1, "--seconds", "of a turn"},
        {"ramp_seconds", &c.ramp_seconds, 0.05, "--ramp_seconds",
         "before those of a turn, not measured"},
        {"precondition_passes", &c.precondition_pass_count, 1, "--precondition_passes",
         "of overwriting before the turns, for a steady state"},
        {"", &c.sample_seconds, 0.02},
        {"memory_budget_bytes", &c.memory_budget_bytes, 64 << 20, "--memory", "of each store"},
        {"read_rate", &c.read_rate, 200, "--read_rate", "reads a second of read_p99_under_reclaim"},
        {"read_threads", &c.read_thread_count, 2},
        {"write_rate", &c.write_rate, 500, "--write_rate", "writes a second beside these reads"},
        {"cost_bytes", &c.cost_bytes, 2 << 20, "--cost_data",
         "values of a store of no_overwrite_cost"},
        {"cost_threads", &c.cost_thread_count},
        {"cost_rounds", &c.cost_round_count, 1, "--cost_rounds", "of no_overwrite_cost"},
        {"seed", &c.seed, kSame, "--seed", "", true}};
  }

 private:
  std::vector<BenchPart> Parts() override {
    const SpaceConfig& c = config_;
    const auto measure = [this](Status (*measurement)(const SpaceConfig&, SpaceReport*)) {
      return [this, measurement] {
        SpaceReport report = {&rounds_, &about_};
        config_.dir = dir();
        config_.memory_dir = tmpfs_dir();
        return measurement(config_, &report);
      };
    };
    return {{"overwrite",
             {kTargets[0].name, kTargets[1].name, kTargets[2].name},
             measure(MeasureOverwrites),
             // In the turns a second store, which is only filled, lies beside the first one.
             c.most_store_bytes() + c.data_bytes},
            {"zipf", {kTargets[3].name}, measure(MeasureZipf), c.most_store_bytes()},
            {"read",
             {kTargets[4].name},
             measure(MeasureReads),
             c.most_store_bytes() + c.data_bytes + c.grown_bytes()},
            {"cost", {kTargets[5].name}, measure(MeasureCost), 0, true},
            {"rocksdb",
             {kTargets[6].name},
             measure(MeasureRocks),
             2 * c.most_store_bytes(),
             false,
             HasRocks() ? "" : kNoRocks}};
  }
  uint64_t TmpfsBytes() override { return StoreBytes(config_.cost_bytes / kValueSize); }

  SpaceConfig config_;
};

}  // namespace

std::unique_ptr<Bench> MakeSpaceBench() { return std::make_unique<SpaceBench>(); }

}  // namespace harness
