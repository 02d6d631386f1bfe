// Ends the key logs of buckets for good, after a power loss. Entries left behind the end could be
// taken for records again, among those that are written later.
//
// Thread safety: one call at a time, which runs threads of its own. The caller owns the files; a
// key file may be another one afterwards.
#ifndef ENGINE_RACE_LOG_KEY_LOG_CUT_H_
#define ENGINE_RACE_LOG_KEY_LOG_CUT_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Where the key logs are to end.
struct KeyLogCuts {
  // Ascending; their logs end at ends[bucket] records. The other buckets are as `states` say.
  const std::vector<uint32_t>& buckets;
  const std::vector<uint64_t>& ends;
  const std::vector<BucketState>& states;
};

// Makes every entry behind the ends unreadable. The caller flushes the key files. A call after an
// interrupted one has the same result.
//
// Any number of entries may lie behind an end. A disk that loses power may keep any of the groups
// that were written since its last flush. The counts were not flushed either and do not know of
// them. So everything behind the end is removed. Where the file system can, the rest of the region
// is punched out. Elsewhere (NFS before 4.2, some FUSE) writing zeros would fill the disk: a region
// has room for 2^26 entries. There the remaining entries are written to a new file, which is
// flushed and renamed into place. That costs as much as reading the entries for the index.
Status CutKeyLogs(const KeyLogCuts& cuts, mode_t file_mode, StoreFiles* files);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_KEY_LOG_CUT_H_
