#include "harness/claims/space_measurements.h"

namespace harness {
namespace {

constexpr ClaimTarget kTargets[] = {{"overwrite_space_amplification", "<= 1.5"},
                                    {"overwrite_write_amplification", "<= 2.5"},
                                    {"overwrite_vs_fresh", ">= 0.35"},
                                    {"zipf_write_amplification", "<= 1.6"},
                                    {"read_p99_under_reclaim", "<= 2.0"},
                                    {"no_overwrite_cost", "<= 0.02"},
                                    {"vs_rocksdb_overwrite", ">= 3"}};

// A second store, which is only filled, lies beside the first one in the turns.
uint64_t OverwritesBytes(const SpaceConfig& config) {
  return config.most_store_bytes() + config.data_bytes;
}
uint64_t ZipfBytes(const SpaceConfig& config) { return config.most_store_bytes(); }
uint64_t ReadsBytes(const SpaceConfig& config) {
  return config.most_store_bytes() + config.data_bytes + config.grown_bytes();
}
uint64_t CostBytes(const SpaceConfig& /*config*/) { return 0; }
uint64_t RocksBytes(const SpaceConfig& config) { return 2 * config.most_store_bytes(); }

constexpr SpaceMeasurement kMeasurements[] = {{"overwrite", OverwritesBytes, MeasureOverwrites},
                                              {"zipf", ZipfBytes, MeasureZipf},
                                              {"read", ReadsBytes, MeasureReads},
                                              {"cost", CostBytes, MeasureCost},
                                              {"rocksdb", RocksBytes, MeasureRocks}};

}  // namespace

std::span<const SpaceMeasurement> SpaceMeasurements() { return kMeasurements; }
std::span<const ClaimTarget> SpaceTargets() { return kTargets; }

}  // namespace harness
