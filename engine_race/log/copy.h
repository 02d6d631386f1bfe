// Copies a closed store, record by record, each verified on its way.
//
// The copy is a store of its own. It has another id, so its paths and devices are never taken for
// those of its source. It takes space for its records alone. It is durable. Its manifest is written
// last, so an interrupted copy is no store.
//
// All records of the copy lie in its logs and count as synced; nothing is staged and there is no
// journal. Its counts name no page cache. So its first opening trusts only the synced watermarks,
// and stages the unfinished groups.
//
// Thread safety: one call a store at a time, which runs threads of its own. Owns nothing after it
// returns.
#ifndef ENGINE_RACE_LOG_COPY_H_
#define ENGINE_RACE_LOG_COPY_H_

#include <string>

#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"

namespace engine_race {

// Copies the store in `from`, which nobody may have open, into `to`, which must be missing or
// empty. Where the values of the copy lie is for options.paths and stripe_unit_bytes to say; the
// rest of the geometry is the source's. Reports as VerifyFiles does: the copy holds what the next
// opening of the source would find. kCorruption when something is bad: there is no copy then.
Status CopyStore(const Options& options, const std::string& from, const std::string& to,
                 VerifyReport* report, const BadRecordFn& on_bad,
                 const ProgressFn& on_progress = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_COPY_H_
