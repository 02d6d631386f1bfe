#include "engine_race/index/part_builder.h"

#include <algorithm>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/index/newest.h"

namespace engine_race {
namespace {

// The distribution runs on cells that are this many bits finer than those of the radix table. With
// two keys in a cell, little is left to sort. Still finer cells would not fit in the first-level
// cache.
constexpr uint32_t kFineBits = 3;
// The most records whose entries, with the cells, fit the cache of one processor.
constexpr size_t kCachedRecords = size_t{160} << 10;
// Of a larger bucket, stretches of about this size are sorted one by one.
constexpr size_t kStretchRecords = size_t{64} << 10;
// Larger cells are not sorted by insertion.
constexpr size_t kInsertionLimit = 32;

bool KeyLess(const IndexEntry& a, const IndexEntry& b) { return a.key < b.key; }

// Sorts by key. Returns how many entries have the key of their predecessor.
size_t InsertionSort(IndexEntry* entries, size_t count) {
  size_t repeats = 0;
  for (size_t i = 1; i < count; ++i) {
    const IndexEntry entry = entries[i];
    size_t hole = i;
    while (hole > 0 && entries[hole - 1].key > entry.key) {
      entries[hole] = entries[hole - 1];
      --hole;
    }
    repeats += hole > 0 && entries[hole - 1].key == entry.key;
    entries[hole] = entry;
  }
  return repeats;
}

// Counts the items of each cell, and makes each cell the number of items before it. Returns the
// size of the largest cell.
template <typename Item>
size_t CountCells(std::span<const Item> items, const CellMap& map, std::span<uint32_t> cells) {
  std::fill(cells.begin(), cells.end(), 0);
  for (const Item& item : items) ++cells[map.Of(item.key)];
  uint32_t sum = 0;
  uint32_t largest = 0;
  for (uint32_t& cell : cells) {
    const uint32_t size = cell;
    largest = std::max(largest, size);
    cell = sum;
    sum += size;
  }
  ENGINE_RACE_ASSERT(sum == items.size());
  return largest;
}

template <typename Item>
void MinMaxKey(std::span<const Item> items, uint64_t* min_key, uint64_t* max_key) {
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  for (const Item& item : items) {
    low = std::min(low, item.key);
    high = std::max(high, item.key);
  }
  *min_key = low;
  *max_key = high;
}

}  // namespace

Status PartBuilder::Reserve(size_t entry_count, size_t cell_count, Distribution* to) {
  const size_t entry_bytes = entry_count * sizeof(IndexEntry);
  const size_t cell_bytes = cell_count * sizeof(uint32_t);
  if (to->entry_memory.size() < entry_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(entry_bytes + entry_bytes / 4, true,
                                                 &to->entry_memory, slabs_->placement()));
    to->entries = reinterpret_cast<IndexEntry*>(to->entry_memory.data());
  }
  if (to->cell_memory.size() < cell_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(cell_bytes + cell_bytes / 4, false,
                                                 &to->cell_memory, slabs_->placement()));
    to->cells = reinterpret_cast<uint32_t*>(to->cell_memory.data());
  }
  to->count = entry_count;
  to->cell_count = cell_count;
  return Status::Ok();
}

Status PartBuilder::Prepare(uint64_t min_key, uint64_t max_key, size_t count, Distribution* to) {
  to->table_map = CellMap::Over(min_key, max_key, SortedRun::CellCountFor(count));
  to->fine_bits = std::min(kFineBits, to->table_map.spare_bits());
  return Reserve(count, size_t{to->table_map.cell_count()} << to->fine_bits, to);
}

Status PartBuilder::Build(const RawBucket& raw, BuiltParts* built) {
  built->parts.clear();
  built->damaged_slots.clear();
  if (raw.entries.empty()) return Status::Ok();
  try {
    if (raw.lost_begin < raw.lost_end || raw.HasRows()) return BuildFromRecords(raw, built);
    const size_t count = raw.entries.size();
    if (count > kCachedRecords) return BuildStretches(raw, built);
    uint64_t min_key;
    uint64_t max_key;
    MinMaxKey(raw.entries, &min_key, &max_key);
    ENGINE_RACE_RETURN_IF_ERROR(Prepare(min_key, max_key, count, &cells_));
    const EntryCounts counts = Distribute(raw, &cells_);
    if (counts.intact_count < count) return BuildFromRecords(raw, built);
    return Finish(raw, counts.tombstone_count > 0, cells_, &built->parts);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to sort a bucket");
  }
}

Status PartBuilder::BuildStretches(const RawBucket& raw, BuiltParts* built) {
  uint64_t min_key;
  uint64_t max_key;
  MinMaxKey(raw.entries, &min_key, &max_key);
  const auto stretch_count = static_cast<uint32_t>(raw.entries.size() / kStretchRecords + 1);
  stretches_.table_map = CellMap::Over(min_key, max_key, stretch_count);
  stretches_.fine_bits = 0;
  ENGINE_RACE_RETURN_IF_ERROR(
      Reserve(raw.entries.size(), stretches_.table_map.cell_count(), &stretches_));
  const EntryCounts counts = Distribute(raw, &stretches_);
  if (counts.intact_count < raw.entries.size()) return BuildFromRecords(raw, built);
  size_t begin = 0;
  for (size_t c = 0; c < stretches_.cell_count; ++c) {
    const std::span<const IndexEntry> stretch(stretches_.entries + begin,
                                              stretches_.cells[c] - begin);
    begin = stretches_.cells[c];
    if (stretch.empty()) continue;
    MinMaxKey(stretch, &min_key, &max_key);
    ENGINE_RACE_RETURN_IF_ERROR(Prepare(min_key, max_key, stretch.size(), &cells_));
    const CellMap map = cells_.table_map.Finer(cells_.fine_bits);
    cells_.largest_cell = CountCells(stretch, map, {cells_.cells, cells_.cell_count});
    for (const IndexEntry& entry : stretch) {
      cells_.entries[cells_.cells[map.Of(entry.key)]++] = entry;
    }
    ENGINE_RACE_RETURN_IF_ERROR(Finish(raw, counts.tombstone_count > 0, cells_, &built->parts));
  }
  return Status::Ok();
}

PartBuilder::EntryCounts PartBuilder::Distribute(const RawBucket& raw, Distribution* to) {
  const CellMap map = to->table_map.Finer(to->fine_bits);
  to->largest_cell = CountCells(raw.entries, map, {to->cells, to->cell_count});
  // Damaged entries are distributed as well: damage is rare, and the intact entries are counted.
  IndexEntry* const entries = to->entries;
  uint32_t* const cells = to->cells;
  EntryCounts counts;
  for (size_t slot = 0; slot < raw.entries.size(); ++slot) {
    KeyRecord record;
    counts.intact_count += raw.Decode(slot, &record);
    counts.tombstone_count += record.tombstone;
    entries[cells[map.Of(raw.entries[slot].key)]++] = {record.key, ValueRef(record)};
  }
  // Each cell ends where the next one begins.
  ENGINE_RACE_ASSERT(cells[to->cell_count - 1] == raw.entries.size());
  return counts;
}

Status PartBuilder::Finish(const RawBucket& raw, bool has_tombstones,
                           const Distribution& distribution, BucketIndex::Row* parts) {
  const size_t repeats = SortCells(distribution);
  if (repeats == 0 && !has_tombstones && distribution.count <= split_keys_) {
    return MakeOnePart(distribution, parts);
  }
  const size_t kept =
      repeats == 0 && !has_tombstones ? distribution.count : Resolve(raw, distribution);
  return MakeParts({distribution.entries, kept}, parts);
}

size_t PartBuilder::SortCells(const Distribution& distribution) {
  IndexEntry* const entries = distribution.entries;
  // Entries of different cells are in order already, so one insertion sort does all of them.
  if (distribution.largest_cell <= kInsertionLimit) {
    return InsertionSort(entries, distribution.count);
  }
  size_t begin = 0;
  for (size_t c = 0; c < distribution.cell_count; ++c) {
    const size_t end = distribution.cells[c];
    if (end - begin > kInsertionLimit) {
      std::sort(entries + begin, entries + end, KeyLess);
    } else {
      InsertionSort(entries + begin, end - begin);
    }
    begin = end;
  }
  ENGINE_RACE_ASSERT(begin == distribution.count);
  size_t repeats = 0;
  for (size_t i = 1; i < distribution.count; ++i) repeats += entries[i].key == entries[i - 1].key;
  return repeats;
}

size_t PartBuilder::Resolve(const RawBucket& raw, const Distribution& distribution) {
  IndexEntry* const entries = distribution.entries;
  size_t kept = 0;
  size_t i = 0;
  while (i < distribution.count) {
    IndexEntry newest = entries[i];
    uint64_t newest_sequence = 0;
    size_t end = i + 1;
    // A record needs its sequence number only if its key has several records. It is looked up then.
    for (; end < distribution.count && entries[end].key == newest.key; ++end) {
      KeyRecord record;
      if (end == i + 1) {
        raw.Decode(newest.ref.slot(), &record);
        newest_sequence = record.sequence;
      }
      raw.Decode(entries[end].ref.slot(), &record);
      if (record.sequence > newest_sequence) {
        newest_sequence = record.sequence;
        newest = entries[end];
      }
    }
    if (!newest.ref.tombstone()) entries[kept++] = newest;
    i = end;
  }
  ENGINE_RACE_ASSERT(kept <= distribution.count);
  return kept;
}

Status PartBuilder::MakeOnePart(const Distribution& distribution, BucketIndex::Row* parts) {
  const size_t count = distribution.count;
  auto part = std::make_unique<Part>();
  ENGINE_RACE_RETURN_IF_ERROR(
      SortedRun::Create(count, distribution.table_map, slabs_, &part->run, slabs_->placement()));
  uint64_t* const keys = part->run.mutable_keys();
  RefWord* const refs = part->run.mutable_refs();
  for (size_t i = 0; i < count; ++i) {
    ENGINE_RACE_ASSERT(i == 0 || distribution.entries[i - 1].key < distribution.entries[i].key);
    keys[i] = distribution.entries[i].key;
    refs[i].Store(distribution.entries[i].ref);
  }
  // A coarse cell begins at the end of the fine cells before it.
  uint32_t* const table = part->run.mutable_cells();
  table[0] = 0;
  for (size_t c = 1; c <= part->run.cell_count(); ++c) {
    table[c] = distribution.cells[(c << distribution.fine_bits) - 1];
  }
  ENGINE_RACE_ASSERT(table[part->run.cell_count()] == count);
  parts->push_back(std::move(part));
  return Status::Ok();
}

Status PartBuilder::MakeParts(std::span<const IndexEntry> entries, BucketIndex::Row* parts) {
  if (entries.empty()) return Status::Ok();
  try {
    const size_t part_count = (entries.size() + split_keys_ - 1) / split_keys_;
    for (size_t p = 0; p < part_count; ++p) {
      const size_t begin = entries.size() * p / part_count;
      const size_t count = entries.size() * (p + 1) / part_count - begin;
      const IndexEntry* const from = entries.data() + begin;
      auto part = std::make_unique<Part>();
      const CellMap map =
          CellMap::Over(from[0].key, from[count - 1].key, SortedRun::CellCountFor(count));
      ENGINE_RACE_RETURN_IF_ERROR(
          SortedRun::Create(count, map, slabs_, &part->run, slabs_->placement()));
      for (size_t i = 0; i < count; ++i) {
        part->run.mutable_keys()[i] = from[i].key;
        part->run.mutable_refs()[i].Store(from[i].ref);
      }
      part->run.FillCells();
      parts->push_back(std::move(part));
    }
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory for a part");
  }
  return Status::Ok();
}

// For damaged buckets, and for those with rows. A record is provably the newest of its key if that
// is known of it for higher sequence numbers than any damaged record has.
Status PartBuilder::BuildFromRecords(const RawBucket& raw, BuiltParts* built) {
  std::vector<KeyRecord> records;
  records.reserve(raw.entries.size());
  uint64_t first_provable = 0;
  KeyRecord record;
  for (size_t slot = 0; slot < raw.entries.size(); ++slot) {
    if (!raw.Holds(slot)) continue;
    const bool lost = slot >= raw.lost_begin && slot < raw.lost_end;
    if (!lost && raw.Decode(slot, &record)) {
      records.push_back(record);
    } else {
      built->damaged_slots.push_back(static_cast<uint32_t>(slot));
      first_provable = std::max(first_provable, raw.SequenceEnd(slot) + 1);
    }
  }
  std::erase_if(records,
                [&](const KeyRecord& each) { return raw.NewestBelow(each) < first_provable; });
  const auto is_later_copy = [&raw](const KeyRecord& a, const KeyRecord& b) {
    return raw.IsLaterCopy(a.slot, b.slot);
  };
  records.resize(KeepNewest(records.data(), records.size(), is_later_copy));
  const bool damaged = !built->damaged_slots.empty();
  std::vector<IndexEntry> entries;
  entries.reserve(records.size());
  for (const KeyRecord& each : records) {
    if (each.tombstone && !damaged) continue;
    entries.push_back({each.key, ValueRef(each)});
  }
  return MakeParts(entries, &built->parts);
}

}  // namespace engine_race
