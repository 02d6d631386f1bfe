// Ends the key logs of buckets for good, after a power loss. Entries left behind the end could be
// taken for records again, among those that are written later.
//
// Thread safety: one call at a time, which runs threads of its own. The caller owns the files.
#ifndef ENGINE_RACE_LOG_KEY_LOG_CUT_H_
#define ENGINE_RACE_LOG_KEY_LOG_CUT_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Where the key logs are to end: those of `buckets` at ends[bucket] records.
struct KeyLogCuts {
  const std::vector<uint32_t>& buckets;
  const std::vector<uint64_t>& ends;
  const std::vector<BucketState>& states;
};

// Zeros every entry behind the ends, and those of slots that hold nothing. The caller flushes the
// key files. A call after an interrupted one has the same result.
//
// Any number of entries may lie behind an end. A disk that loses power may keep any of the groups
// that were written since its last flush. The counts were not flushed either and do not know of
// them. So everything behind the end is removed, in all segments of the bucket.
Status CutKeyLogs(const StoreFiles& files, const KeyLogCuts& cuts);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_KEY_LOG_CUT_H_
