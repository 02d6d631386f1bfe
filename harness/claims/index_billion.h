// The claims about a store of a billion keys that has little memory. They are its peak memory, the
// part of lookups that are right, and the time to build its index.
//
// The key logs are filled without values. Two children open the store. One reads it through the
// public interface. The other looks up keys in the index alone and compares the slots, because all
// values read alike.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_BILLION_H_
#define HARNESS_CLAIMS_INDEX_BILLION_H_

#include <nlohmann/json_fwd.hpp>

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kBillionRss[] = "billion_keys_rss_mib";
inline constexpr char kBillionRight[] = "billion_keys_right";
inline constexpr char kBillionBuild[] = "billion_build_over_device_read";

engine_race::Status MeasureBillion(const IndexBenchRun& run);

// The children, see index_child.h.
inline constexpr char kBillionReadsKind[] = "billion-reads";
inline constexpr char kBillionSlotsKind[] = "billion-slots";
engine_race::Status RunBillionReads(const nlohmann::json& order, nlohmann::json* answer);
engine_race::Status RunBillionSlots(const nlohmann::json& order, nlohmann::json* answer);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_BILLION_H_
