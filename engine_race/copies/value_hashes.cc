#include "engine_race/copies/value_hashes.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace engine_race {
namespace {

// Of one read.
constexpr uint64_t kReadEntries = 32 * format::kPageEntries;
// Entries between two records that are read along with them.
constexpr uint64_t kGapEntries = 4 * format::kPageEntries;

}  // namespace

Status ValueHashes::Init() {
  return Region::Allocate(kReadEntries * format::kKeyEntryBytes, /*huge_pages=*/false, &entries_);
}

Status ValueHashes::Begin(uint32_t bucket) {
  bucket_ = bucket;
  loaded_begin_ = loaded_end_ = 0;
  ENGINE_RACE_RETURN_IF_ERROR(log_.reader().LookAtBucket(bucket, /*first_sequence=*/0, &cut_));
  // The view pins what is read. Writers that need room would wait for a cut.
  cut_.pin = CutPin();
  return Status::Ok();
}

// Entries are read only where they may make a difference.
bool ValueHashes::IsKnownBelow(uint64_t first, uint64_t slot) const {
  const SlotTable& table = cut_.table;
  const bool was_freed = !table.Holds(slot, cut_.record_count);
  return !was_freed && table.SequenceEnd(slot) <= first;
}

Status ValueHashes::Read(uint64_t first, std::vector<IndexEntry>* records) {
  const std::vector<IndexEntry>& all = *records;
  hashes_.resize(all.size());
  left_.assign(all.size(), false);
  by_slot_.clear();
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (!IsKnownBelow(first, all[i].ref.slot())) by_slot_.push_back(i);
  }
  std::sort(by_slot_.begin(), by_slot_.end(),
            [&](uint32_t a, uint32_t b) { return all[a].ref.slot() < all[b].ref.slot(); });
  const EntryCodec codec = log_.codec(bucket_);
  for (size_t i = 0; i < by_slot_.size(); ++i) {
    const IndexEntry& indexed = all[by_slot_[i]];
    format::KeyEntry entry;
    ENGINE_RACE_RETURN_IF_ERROR(EntryOf(i, all, &entry));
    KeyRecord record;
    if (!cut_.table.Decode(codec, entry, indexed.ref.slot(), &record) ||
        record.key != indexed.key || ValueRef(record) != indexed.ref) {
      const uint32_t slot = indexed.ref.slot();
      return Status::Corruption(log_.slots().NameOf(log_.slots().LocateKeys(bucket_, slot)) +
                                ": bucket " + std::to_string(bucket_) + ", slot " +
                                std::to_string(slot) +
                                ": the key entry does not match its check or the index");
    }
    hashes_[by_slot_[i]] = record.value_hash;
    left_[by_slot_[i]] = record.sequence >= first;
  }
  size_t left_count = 0;
  for (size_t i = 0; i < left_.size(); ++i) {
    if (!left_[i]) continue;
    (*records)[left_count] = (*records)[i];
    hashes_[left_count++] = hashes_[i];
  }
  records->resize(left_count);
  return Status::Ok();
}

// Of records[by_slot_[number]].
Status ValueHashes::EntryOf(size_t number, std::span<const IndexEntry> records,
                            format::KeyEntry* entry) {
  const uint64_t slot = records[by_slot_[number]].ref.slot();
  uint64_t sequence = 0;
  // Staged records lie in runs that the cut has: no row of them was freed.
  if (cut_.table.SequenceOf(slot, &sequence) && sequence >= cut_.first_staged() &&
      sequence < cut_.record_count) {
    *entry = cut_.staged_keys[sequence - cut_.first_staged()];
    return Status::Ok();
  }
  if (slot < loaded_begin_ || slot >= loaded_end_) {
    ENGINE_RACE_RETURN_IF_ERROR(Load(number, records));
  }
  std::memcpy(entry, entries_.data() + (slot - loaded_begin_) * sizeof(*entry), sizeof(*entry));
  return Status::Ok();
}

// Reads the page with the entry of records[by_slot_[begin]], and those behind it that have entries
// of the next records.
Status ValueHashes::Load(size_t begin, std::span<const IndexEntry> records) {
  const auto slot_of = [&](size_t number) {
    return uint64_t{records[by_slot_[number]].ref.slot()};
  };
  const uint64_t first = slot_of(begin) / format::kPageEntries * format::kPageEntries;
  uint64_t end = first;
  for (size_t i = begin; i < by_slot_.size(); ++i) {
    const uint64_t page_end = (slot_of(i) / format::kPageEntries + 1) * format::kPageEntries;
    if (page_end > first + kReadEntries || slot_of(i) > end + kGapEntries) break;
    end = page_end;
  }
  loaded_begin_ = loaded_end_ = 0;
  ENGINE_RACE_RETURN_IF_ERROR(log_.slots().ReadKeys(bucket_, first, end - first, entries_.data()));
  loaded_begin_ = first;
  loaded_end_ = end;
  return Status::Ok();
}

}  // namespace engine_race
