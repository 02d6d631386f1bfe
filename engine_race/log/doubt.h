// Whether the counts that an opening finds can be taken for the truth. The buckets share a page
// cache: one in doubt puts all in doubt.
//
// Thread safety: stateless functions, for Open alone. They own nothing and change nothing.
#ifndef ENGINE_RACE_LOG_DOUBT_H_
#define ENGINE_RACE_LOG_DOUBT_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Why nothing past the synced watermark of any bucket may be trusted. A bucket's counts do not have
// the id of the present page cache, or DoubtRows gives the reason. Null without one. Buckets with
// damaged counts do not take part.
const char* DoubtPageCache(const StoreFiles& files, const std::vector<BucketState>& states);
// Likewise if a bucket's counts have more records than its rows hold. Reads no file.
const char* DoubtRows(const std::vector<BucketState>& states);
// Where the table of segments has damaged entries, or has lost some, rows without a place may have
// held records: their buckets are damaged.
void NoteLostRows(const StoreFiles& files, std::vector<BucketState>* states);

// Sets *doubt to the reason when the journal holds a record that is neither synced nor where
// readers look for it; otherwise leaves it alone. The id can stay the same when a page cache was
// lost; a record that was made durable and is not there shows the loss. An error is one of reading.
Status CompareWithJournal(const StoreFiles& files, const Staging& staging,
                          const JournalReplay& journal, const std::vector<BucketState>& states,
                          const char** doubt);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DOUBT_H_
