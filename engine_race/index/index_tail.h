// Reads from the key log the records that came to a bucket since a moment. They were appended
// since, or moved to rows that were born since. See log/index_coverage.h.
//
// Thread safety: one thread. Owns nothing.
#ifndef ENGINE_RACE_INDEX_INDEX_TAIL_H_
#define ENGINE_RACE_INDEX_INDEX_TAIL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/held_slots.h"
#include "engine_race/index/row_reads.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class IndexTail {
 public:
  // `cut` begins with SlotTable::FirstSince, or before it. `reads` is for this thread alone.
  IndexTail(const BucketLog& log, uint32_t bucket, const BucketCut& cut, const BucketMoment& since,
            RowReads* reads)
      : log_(log),
        bucket_(bucket),
        cut_(cut),
        since_(since),
        first_(cut.table.FirstSince(since)),
        reads_(*reads) {}

  // Appends the records to *records, older ones first. *is_good is false if an entry is damaged or
  // cannot be read, or if the rows cannot have become so since the moment. Which keys a damaged
  // entry may hide, only a build from the whole key log finds out. `held`, of a bucket with rows,
  // gets the keys of rows that were born after `oldest_births`. kOutOfMemory.
  Status Read(uint64_t oldest_births, std::vector<IndexEntry>* records, HeldSlots* held,
              bool* is_good);

 private:
  struct Found {
    uint64_t sequence;
    uint64_t moved_at;
    IndexEntry entry;
  };
  // Whether the row's entries in the key log are needed. Clears is_good_ if the row cannot have
  // become so since the moment.
  bool NeedsRow(uint32_t index, uint64_t oldest_births);
  // Where the appended records of a row that are in the key log end.
  uint64_t RunEnd(const Row& row) const { return std::min(row.run_end(), cut_.first_staged()); }
  bool HasMoved(const Row& row) const { return row.moved_at > since_.births; }
  static bool NeedsKeys(const Row& row, uint64_t oldest_births) {
    return row.birth > oldest_births && !row.kept().empty();
  }
  Status ReadRows(uint64_t oldest_births, HeldSlots* held);
  void TakeRow(uint32_t index, bool needs_keys, const format::KeyEntry* entries, HeldSlots* held);
  bool Decode(const format::KeyEntry& entry, uint64_t slot, KeyRecord* record) const;
  void AddAppended(const format::KeyEntry& entry, uint64_t slot);
  void Add(const KeyRecord& record, uint64_t moved_at);

  const BucketLog& log_;
  const uint32_t bucket_;
  const BucketCut& cut_;
  const BucketMoment since_;
  const uint64_t first_;  // the first appended record
  std::vector<Found> found_;
  RowReads& reads_;
  bool is_good_ = true;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_INDEX_TAIL_H_
