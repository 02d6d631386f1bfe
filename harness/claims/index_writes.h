// The claims about writes to a store whose index is on disk: their delays beside merges, and the
// bytes of index that they cause. Beside them, the disk space of the index.
//
// Not thread-safe; a load starts its threads.
#ifndef HARNESS_CLAIMS_INDEX_WRITES_H_
#define HARNESS_CLAIMS_INDEX_WRITES_H_

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kWriterStall[] = "writer_stall_ratio";
inline constexpr char kWriteAmplification[] = "index_write_amplification";
inline constexpr char kDiskBytesPerKey[] = "index_disk_bytes_per_key";

// kWriterStall: the same store is written to with a paged and with a flat index in turn.
engine_race::Status MeasureWriterStalls(const IndexBenchRun& run);

// kWriteAmplification and kDiskBytesPerKey.
engine_race::Status MeasureWriteAmplification(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_WRITES_H_
