// The claims about reads whose index does not fit the memory: beside the device's random reads, and
// beside RocksDB.
//
// The stores have real values on the disk. Hot values are off: uniform reads of a large store would
// not find them. Compared runs alternate in short rounds.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_PAGED_H_
#define HARNESS_CLAIMS_INDEX_PAGED_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kPagedRead[] = "paged_read_ratio";
inline constexpr char kPagedMultiRead[] = "paged_multiread_ratio";
inline constexpr char kHalfPagedRead[] = "half_paged_read_ratio";
inline constexpr char kPagedVsRocks[] = "paged_vs_rocksdb";

// How many of `asked` records with values a disk with `free_bytes` has room for. A tenth of it is
// left free.
uint64_t FittingRecords(uint64_t asked, uint64_t free_bytes);

// kPagedRead, kPagedMultiRead and kHalfPagedRead.
engine_race::Status MeasurePaged(const IndexBenchRun& run);
engine_race::Status MeasurePagedVsRocks(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_PAGED_H_
