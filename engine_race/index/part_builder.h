// Builds the parts of a bucket from its key log: decodes, checks and sorts the entries and keeps
// the newest of each key.
//
// One counting pass and one distribution pass spread the keys over the cells of a radix table. Only
// a handful of keys in each cell is left to sort. The counts are the radix table that lookups use.
// This is four to five times as fast as sorting by comparisons. Buckets that do not fit the cache
// are first cut into stretches of keys that do, by one more pass of both.
//
// Thread safety: one thread at a time for each builder. A builder keeps its scratch memory for the
// next bucket.
#ifndef ENGINE_RACE_INDEX_PART_BUILDER_H_
#define ENGINE_RACE_INDEX_PART_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/key_range.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

// The key entries of a bucket, in memory.
struct RawBucket {
  std::span<const format::KeyEntry> entries;  // entry i is slot i
  // Slots [lost_begin, lost_end) could not be read and count as damaged.
  uint64_t lost_begin = 0;
  uint64_t lost_end = 0;
  EntryCodec codec{0, 0};
  // Says which records are in the slots of a bucket that has had `record_count` records. Null:
  // slots are sequence numbers.
  const SlotTable* table = nullptr;
  uint64_t record_count = 0;
  // The keys that belong to the bucket. An entry with another key is damaged.
  KeyRange keys;

  // False when the entry is damaged. Not to be called for lost slots.
  bool Decode(size_t slot, KeyRecord* record) const {
    if (HasRows()) {
      return table->Decode(codec, entries[slot], slot, record) && keys.Contains(record->key);
    }
    const bool is_intact = SlotTable::DecodeAppended(codec, entries[slot], slot, record);
    record->slot = static_cast<uint32_t>(slot);
    return is_intact && keys.Contains(record->key);
  }
  bool HasRows() const { return table != nullptr && table->has_rows(); }
  bool Holds(size_t slot) const { return !HasRows() || table->Holds(slot, record_count); }
  // See SlotTable.
  uint64_t SequenceEnd(size_t slot) const {
    return HasRows() ? table->SequenceEnd(slot) : slot + 1;
  }
  uint64_t NewestBelow(const KeyRecord& record) const {
    return HasRows() ? table->NewestBelow(record.slot, record.sequence) : record.sequence + 1;
  }
  bool IsLaterCopy(size_t a, size_t b) const { return HasRows() && table->IsLaterCopy(a, b); }
};

struct BuiltParts {
  BucketIndex::Row parts;
  // The slots of damaged entries, ascending. If there are any, `parts` holds what a damaged bucket
  // may hold: see bucket_index.h.
  std::vector<uint32_t> damaged_slots;
};

class PartBuilder {
 public:
  // Parts take their memory from `slabs`. They have at most `split_keys` keys.
  explicit PartBuilder(SlabAllocator* slabs, size_t split_keys = BucketIndex::kSplitKeys)
      : slabs_(slabs), split_keys_(split_keys) {}

  // For buckets that fit in memory. kOutOfMemory.
  Status Build(const RawBucket& raw, BuiltParts* built);

  // Cuts ascending, distinct entries into parts and appends them to *parts.
  Status MakeParts(std::span<const IndexEntry> entries, BucketIndex::Row* parts);

 private:
  // Entries that were distributed over cells, and the memory for them.
  struct Distribution {
    CellMap table_map;       // the map of the part's radix table
    uint32_t fine_bits = 0;  // the distribution ran on this many more bits
    size_t cell_count = 0;
    size_t largest_cell = 0;
    size_t count = 0;
    IndexEntry* entries = nullptr;
    // cells[c] is the end of cell c.
    uint32_t* cells = nullptr;
    Region entry_memory;
    Region cell_memory;
  };
  // Of the decoded entries: how many are intact, and how many are tombstones.
  struct EntryCounts {
    size_t intact_count = 0;
    size_t tombstone_count = 0;
  };

  Status Reserve(size_t entry_count, size_t cell_count, Distribution* to);
  // Makes room for cells of a few keys each over [min_key, max_key].
  Status Prepare(uint64_t min_key, uint64_t max_key, size_t count, Distribution* to);
  // Decodes the entries of the bucket and distributes them.
  static EntryCounts Distribute(const RawBucket& raw, Distribution* to);
  // Sorts within the cells. Returns how many entries have the key of their predecessor.
  static size_t SortCells(const Distribution& distribution);
  // Keeps the newest record of each key unless it is a tombstone. Returns how many are left.
  static size_t Resolve(const RawBucket& raw, const Distribution& distribution);
  Status BuildStretches(const RawBucket& raw, BuiltParts* built);
  // Makes parts of entries that are distributed, but not sorted yet.
  Status Finish(const RawBucket& raw, bool has_tombstones, const Distribution& distribution,
                BucketIndex::Row* parts);
  Status MakeOnePart(const Distribution& distribution, BucketIndex::Row* parts);
  Status BuildFromRecords(const RawBucket& raw, BuiltParts* built);

  SlabAllocator* const slabs_;
  const size_t split_keys_;
  Distribution stretches_;  // of a bucket that does not fit the cache
  Distribution cells_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_BUILDER_H_
