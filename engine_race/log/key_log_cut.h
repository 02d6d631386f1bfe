// Ends the key log of a bucket for good, after a power loss or in a clone. Entries behind the end
// could be taken for records again, among those that are written later.
//
// Thread safety: one call at a time for a bucket. The caller owns the files.
#ifndef ENGINE_RACE_LOG_KEY_LOG_CUT_H_
#define ENGINE_RACE_LOG_KEY_LOG_CUT_H_

#include <cstdint>

#include "engine_race/base/status.h"
#include "engine_race/log/slot_table.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Zeros every entry behind the first `end` records, and those of slots that hold nothing. The
// caller flushes the key files. A call after an interrupted one has the same result.
//
// Any number of entries may lie behind an end. A disk that loses power may keep any of the groups
// that were written since its last flush. The counts were not flushed either and do not know of
// them. So everything behind the end is removed, in all segments of the bucket.
Status CutKeyLog(const StoreFiles& files, uint32_t bucket, const SlotTable& table, uint64_t end);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_KEY_LOG_CUT_H_
