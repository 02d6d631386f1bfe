// Verifies a closed store with its index: reads the logs from end to end, and compares the extents
// with them.
//
// Extents that cannot be used are only counted, because the next opening builds their buckets from
// the key logs. Extents that match all their checks and yet say something else than the logs are
// bad.
//
// Thread safety: as VerifyStore.
#ifndef ENGINE_RACE_INDEX_VERIFY_INDEX_H_
#define ENGINE_RACE_INDEX_VERIFY_INDEX_H_

#include <optional>
#include <string>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"

namespace engine_race {

// VerifyStore, and the index.
Status VerifyStoreAndIndex(const std::string& dir, VerifyReport* report, const BadRecordFn& on_bad,
                           const std::vector<std::string>& paths,
                           const std::optional<KeyRange>& key_range,
                           const ProgressFn& on_progress = {});

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_VERIFY_INDEX_H_
