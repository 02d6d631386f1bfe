// How far the extents of the index stand for a bucket's records, and what recovery does with it.
//
// The root of the index says for each bucket how many records its extents cover, and how many
// births of rows (row.h). A power loss may cut a log below that, and later records take the
// slots again. A coverage past the cut would then stand for records that are gone. So recovery
// voids it, durably, before anything new is written.
//
// A coverage in the root holds if all this does:
//
//   * The bucket has the records and births that it covers. A root is written only when the rows
//     that it covers are durable.
//   * The births that it covers are of the present era: no row that it covers was taken back.
//   * The last record that it covers is the same, unless its row was freed.
//
// Then a word of the extents is void in the two cases below. In both its record is dead or was
// moved. Every other word leads to a record of its key.
//
//   * Its slot holds nothing.
//   * Its row was born after the births of its extent, and the slot keeps no record of its key.
//
// An opening puts all records that came since the coverage's moment above the extents. They are:
//
//   * The records from SlotTable::FirstSince on.
//   * The rows that records were moved to since.
//   * The kept records of rows that were born since, if their numbers are not below the coverage's
//     count.
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

// The check word of a coverage, never 0, for all its other fields.
uint64_t CoverageCheck(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                       const format::IndexCoverage& coverage);

// Whether a coverage holds for a bucket that is as far as `now`. read_entry(sequence, &entry) reads
// the key entry of an appended record. kInvalidArgument: the bucket does not have it any more.
using ReadEntryFn = FunctionRef<Status(uint64_t sequence, format::KeyEntry* entry)>;
bool CoverageHolds(uint64_t store_id, uint64_t root_id, uint32_t bucket,
                   const format::IndexCoverage& coverage, const BucketMoment& now,
                   ReadEntryFn read_entry);

// kCorruption when something other than a regular file has the name of the root. The store is not
// opened then.
Status CheckRootFile(const StoreFiles& files);

// The coverage of the root, as a read has found it.
struct FoundCoverage {
  // kCorruption when the name of the root is that of no regular file.
  Status status;
  uint64_t root_id = 0;
  // By bucket; none if there is no root, or one that cannot be read or used.
  std::vector<format::IndexCoverage> coverages;
};
// May be called while another thread reads other files of the store.
FoundCoverage ReadCoverage(const StoreFiles& files);

// Sets *doubt when the root covers more records or births of a bucket than there are. Roots cover
// only what was counted, so counts or rows are older than the root then. A damaged coverage is
// ignored. Fails as the read has.
Status CompareWithCoverage(const StoreFiles& files, const FoundCoverage& found,
                           const std::vector<BucketState>& states, const char** doubt);

// Voids the coverage of each of `buckets` that covers more than ends[bucket] has, durably. A
// root that cannot be opened, read, used, written or flushed is removed instead, durably. Flushes
// the root and the directory even if nothing had to change. An interrupted call, or the writer of
// the root, may have ended before its flush. kIOError: the root can be neither voided nor removed.
Status VoidCoverage(const StoreFiles& files, const std::vector<uint32_t>& buckets,
                    const std::vector<BucketMoment>& ends);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_INDEX_COVERAGE_H_
