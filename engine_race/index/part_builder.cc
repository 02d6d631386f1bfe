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

void MinMaxKey(std::span<const format::KeyEntry> entries, uint64_t* min_key, uint64_t* max_key) {
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  for (const format::KeyEntry& entry : entries) {
    low = std::min(low, entry.key);
    high = std::max(high, entry.key);
  }
  *min_key = low;
  *max_key = high;
}

}  // namespace

Status PartBuilder::Reserve(size_t entry_count, size_t cell_count) {
  const size_t entry_bytes = entry_count * sizeof(IndexEntry);
  const size_t cell_bytes = cell_count * sizeof(uint32_t);
  if (entry_memory_.size() < entry_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(entry_bytes + entry_bytes / 4, true, &entry_memory_, slabs_->placement()));
    entries_ = reinterpret_cast<IndexEntry*>(entry_memory_.data());
  }
  if (cell_memory_.size() < cell_bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(cell_bytes + cell_bytes / 4, false, &cell_memory_, slabs_->placement()));
    cells_ = reinterpret_cast<uint32_t*>(cell_memory_.data());
  }
  return Status::Ok();
}

Status PartBuilder::Build(const RawBucket& raw, BuiltParts* built) {
  built->parts.clear();
  built->damaged_slots.clear();
  if (raw.entries.empty()) return Status::Ok();
  try {
    if (raw.lost_begin < raw.lost_end) return BuildDamaged(raw, built);
    Distribution distribution;
    ENGINE_RACE_RETURN_IF_ERROR(Distribute(raw, &distribution));
    if (distribution.damaged_count > 0) return BuildDamaged(raw, built);
    const size_t count = raw.entries.size();
    const size_t repeats = SortCells(count, distribution);
    if (repeats == 0 && distribution.tombstone_count == 0 && count <= split_keys_) {
      return MakeOnePart(count, distribution, &built->parts);
    }
    return MakeParts({entries_, Resolve(raw, count)}, &built->parts);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory to sort a bucket");
  }
}

Status PartBuilder::Distribute(const RawBucket& raw, Distribution* distribution) {
  const size_t count = raw.entries.size();
  uint64_t min_key;
  uint64_t max_key;
  MinMaxKey(raw.entries, &min_key, &max_key);
  const CellMap table_map = CellMap::Over(min_key, max_key, SortedRun::CellCountFor(count));
  const uint32_t fine_bits = std::min(kFineBits, table_map.spare_bits());
  const CellMap map = table_map.Finer(fine_bits);
  const size_t cell_count = size_t{table_map.cell_count()} << fine_bits;
  ENGINE_RACE_RETURN_IF_ERROR(Reserve(count, cell_count));

  uint32_t* const cells = cells_;
  std::fill(cells, cells + cell_count, 0);
  for (const format::KeyEntry& entry : raw.entries) ++cells[map.Of(entry.key)];
  uint32_t sum = 0;
  uint32_t largest = 0;
  for (size_t c = 0; c < cell_count; ++c) {
    const uint32_t size = cells[c];
    largest = std::max(largest, size);
    cells[c] = sum;
    sum += size;
  }
  ENGINE_RACE_ASSERT(sum == count);

  // Damaged entries are distributed as well: damage is rare, and the intact entries are counted.
  IndexEntry* const entries = entries_;
  size_t intact = 0;
  size_t tombstones = 0;
  for (size_t slot = 0; slot < count; ++slot) {
    KeyRecord record;
    intact += raw.Decode(slot, &record);
    tombstones += record.tombstone;
    entries[cells[map.Of(raw.entries[slot].key)]++] = {
        record.key, ValueRef(record.slot, record.value_checksum, record.tombstone)};
  }
  // Each cell ends where the next one begins.
  ENGINE_RACE_ASSERT(cells[cell_count - 1] == count);
  *distribution = {table_map, fine_bits, largest, count - intact, tombstones};
  return Status::Ok();
}

size_t PartBuilder::SortCells(size_t count, const Distribution& distribution) {
  // Entries of different cells are in order already, so one insertion sort does all of them.
  if (distribution.largest_cell <= kInsertionLimit) return InsertionSort(entries_, count);
  const size_t cell_count = size_t{distribution.table_map.cell_count()} << distribution.fine_bits;
  size_t begin = 0;
  for (size_t c = 0; c < cell_count; ++c) {
    const size_t end = cells_[c];
    if (end - begin > kInsertionLimit) {
      std::sort(entries_ + begin, entries_ + end, KeyLess);
    } else {
      InsertionSort(entries_ + begin, end - begin);
    }
    begin = end;
  }
  ENGINE_RACE_ASSERT(begin == count);
  size_t repeats = 0;
  for (size_t i = 1; i < count; ++i) repeats += entries_[i].key == entries_[i - 1].key;
  return repeats;
}

size_t PartBuilder::Resolve(const RawBucket& raw, size_t count) {
  size_t kept = 0;
  size_t i = 0;
  while (i < count) {
    IndexEntry newest = entries_[i];
    uint64_t newest_sequence = 0;
    size_t end = i + 1;
    // A record needs its sequence number only if its key has several records. It is looked up then.
    for (; end < count && entries_[end].key == newest.key; ++end) {
      KeyRecord record;
      if (end == i + 1) {
        raw.Decode(newest.ref.slot(), &record);
        newest_sequence = record.sequence;
      }
      raw.Decode(entries_[end].ref.slot(), &record);
      if (record.sequence > newest_sequence) {
        newest_sequence = record.sequence;
        newest = entries_[end];
      }
    }
    if (!newest.ref.tombstone()) entries_[kept++] = newest;
    i = end;
  }
  ENGINE_RACE_ASSERT(kept <= count);
  return kept;
}

Status PartBuilder::MakeOnePart(size_t count, const Distribution& distribution,
                                BucketIndex::Row* parts) {
  auto part = std::make_unique<Part>();
  ENGINE_RACE_RETURN_IF_ERROR(
      SortedRun::Create(count, distribution.table_map, slabs_, &part->run, slabs_->placement()));
  uint64_t* const keys = part->run.mutable_keys();
  RefWord* const refs = part->run.mutable_refs();
  for (size_t i = 0; i < count; ++i) {
    ENGINE_RACE_ASSERT(i == 0 || entries_[i - 1].key < entries_[i].key);
    keys[i] = entries_[i].key;
    refs[i].Store(entries_[i].ref);
  }
  // A coarse cell begins at the end of the fine cells before it.
  uint32_t* const table = part->run.mutable_cells();
  table[0] = 0;
  for (size_t c = 1; c <= part->run.cell_count(); ++c) {
    table[c] = cells_[(c << distribution.fine_bits) - 1];
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

Status PartBuilder::BuildDamaged(const RawBucket& raw, BuiltParts* built) {
  std::vector<KeyRecord> records;
  records.reserve(raw.entries.size());
  KeyRecord record;
  for (size_t slot = 0; slot < raw.entries.size(); ++slot) {
    const bool lost = slot >= raw.lost_begin && slot < raw.lost_end;
    if (!lost && raw.Decode(slot, &record)) {
      records.push_back(record);
    } else {
      built->damaged_slots.push_back(static_cast<uint32_t>(slot));
    }
  }
  SequenceSet seen(raw.sequence_bound, raw.entries.size());
  for (const KeyRecord& each : records) seen.Add(each.sequence);
  const uint64_t provable = seen.FirstProvable();
  std::erase_if(records, [provable](const KeyRecord& each) { return each.sequence < provable; });
  KeepNewest(&records);
  std::vector<IndexEntry> entries;
  entries.reserve(records.size());
  for (const KeyRecord& each : records) {
    entries.push_back({each.key, ValueRef(each.slot, each.value_checksum, each.tombstone)});
  }
  return MakeParts(entries, &built->parts);
}

}  // namespace engine_race
