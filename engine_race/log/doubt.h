// Whether the counts that an opening finds can be taken for the truth.
#ifndef ENGINE_RACE_LOG_DOUBT_H_
#define ENGINE_RACE_LOG_DOUBT_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// *doubt says why nothing past the synced counts of any bucket may be trusted; null when it may.
//
// The counts are trusted when every bucket has the id of the present page cache, and each record in
// the journal is either synced or where readers look for it. An id can stay the same when a page
// cache was lost; a record that was made durable and is not there shows the loss. One bucket in
// doubt puts all in doubt, since they share the page cache. Buckets with damaged counts do not
// take part.
Status FindDoubt(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                 const std::vector<BucketState>& states, const char** doubt);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DOUBT_H_
