// How far the extents of the index stand for a bucket's records, and what recovery does with it.
//
// The root of the index says for each bucket how many records its extents cover. A power loss may
// cut a log below that, and later records take the slots again. A coverage past the cut would then
// stand for records that are gone. So recovery voids it, durably, before anything new is written.
//
// Nothing acknowledged depends on the root: one that cannot be used is removed.
//
// Thread safety: stateless functions; one call at a time for a store that the caller has locked.
#ifndef ENGINE_RACE_LOG_INDEX_COVERAGE_H_
#define ENGINE_RACE_LOG_INDEX_COVERAGE_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/format.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// The check word of a coverage, never 0, for both its counts. `last_check` is that of the key entry
// of slot end_count - 1.
uint64_t CoverageCheck(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                       const format::IndexCoverage& coverage, uint64_t last_check);

// Whether a coverage holds for a bucket of `record_count` records: its counts are possible, and the
// last entry that it covers is still the same. read_entry(slot, &entry) reads the key entry of a
// slot; false: it cannot.
using ReadEntryFn = FunctionRef<bool(uint64_t slot, format::KeyEntry* entry)>;
bool CoverageHolds(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                   const format::IndexCoverage& coverage, uint64_t record_count,
                   ReadEntryFn read_entry);

// kCorruption when something other than a regular file has the name of the root. The store is not
// opened then.
Status CheckRootFile(const StoreFiles& files);

// Sets *doubt when the root covers more records of a bucket than its counts have. Roots cover only
// what was counted, so the counts are older than the root then. A root that cannot be read or used
// is ignored. kCorruption when its name is that of no regular file.
Status CompareWithCoverage(const StoreFiles& files, const std::vector<BucketState>& states,
                           const char** doubt);

// Voids the coverage of each of `buckets` that covers more than ends[bucket] records, durably. A
// root that cannot be opened, read, used, written or flushed is removed instead, durably. Flushes
// the root and the directory even if nothing had to change. An interrupted call, or the writer of
// the root, may have ended before its flush. kIOError: the root can be neither voided nor removed.
Status VoidCoverage(const StoreFiles& files, const std::vector<uint32_t>& buckets,
                    const std::vector<uint64_t>& ends);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_INDEX_COVERAGE_H_
