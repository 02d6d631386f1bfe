// The claims about opening a store whose index lies on disk: beside building it, after a kill, and
// with many more keys.
//
// A child process opens the store with a dropped page cache. Its time runs from Open until the
// first Read has returned.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_REOPEN_H_
#define HARNESS_CLAIMS_INDEX_REOPEN_H_

#include "engine_race/base/status.h"
#include "harness/claims/index_bench_config.h"

namespace harness {

inline constexpr char kReopen[] = "reopen_ratio";
inline constexpr char kReopenAfterKill[] = "reopen_after_kill_ratio";
inline constexpr char kReopenGrowth[] = "reopen_growth";

// kReopen and kReopenAfterKill.
engine_race::Status MeasureReopening(const IndexBenchRun& run);
engine_race::Status MeasureReopenGrowth(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_REOPEN_H_
