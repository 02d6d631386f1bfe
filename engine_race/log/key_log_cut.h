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
#include "engine_race/log/staging.h"
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
// Nothing bounds what may lie behind an end: a disk that loses power keeps any of the groups that
// were written since its last flush, and the counts, which were not flushed either, do not know of
// them. So the rest of the region goes as a whole. It is punched out where the file system can do
// that. Elsewhere (NFS before 4.2, some FUSE) writing zeros would fill the disk: a region has room
// for 2^26 entries. There the file is written anew, with the entries that stay, under another name,
// flushed, and renamed into place; that costs as much as reading the entries for the index.
Status CutKeyLogs(const KeyLogCuts& cuts, mode_t file_mode, StoreFiles* files);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_KEY_LOG_CUT_H_
