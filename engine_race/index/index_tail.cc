#include "engine_race/index/index_tail.h"

#include <algorithm>
#include <tuple>

#include "engine_race/log/logged_records.h"

namespace engine_race {

Status IndexTail::Read(uint64_t oldest_births, std::vector<IndexEntry>* records, HeldSlots* held,
                       bool* is_good) {
  const SlotTable& table = cut_.table;
  found_.reserve(table.CountSince(since_, cut_.record_count));
  if (table.has_rows()) {
    for (uint32_t index = 0; index < table.rows().size() && is_good_; ++index) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadRow(index, table.rows()[index].birth > oldest_births, held));
    }
  }
  const uint64_t logged_end = std::max(first_, cut_.first_staged());
  if (!table.has_rows() && first_ < logged_end) {
    std::vector<format::KeyEntry> entries(logged_end - first_);
    is_good_ =
        ReadLoggedKeys(log_.files(), bucket_, table, first_, logged_end, entries.data()).ok();
    for (size_t i = 0; i < entries.size() && is_good_; ++i) AddAppended(entries[i], first_ + i);
  }
  for (uint64_t sequence = logged_end; sequence < cut_.record_count && is_good_; ++sequence) {
    AddAppended(cut_.staged_keys[sequence - cut_.first_staged()], table.SlotOf(sequence));
  }
  std::sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
    return std::tie(a.sequence, a.moved_at) < std::tie(b.sequence, b.moved_at);
  });
  records->reserve(found_.size());
  for (const Found& each : found_) records->push_back(each.entry);
  *is_good = is_good_;
  return Status::Ok();
}

// Reads the entries of a row that are in the key log, if any is needed.
Status IndexTail::ReadRow(uint32_t index, bool needs_keys, HeldSlots* held) {
  const Row& row = cut_.table.rows()[index];
  const uint32_t row_records = cut_.table.row_records();
  const uint64_t first_slot = uint64_t{index} * row_records;
  if (row.free()) return Status::Ok();
  // Newer records of its keys need not be among those that came since.
  if (row.has_run() && row.birth > since_.births && row.number < first_) is_good_ = false;
  const uint64_t run_end = std::min(row.run_end(), cut_.first_staged());
  const bool has_appended = row.has_run() && run_end > first_ && row.number < run_end;
  const bool has_moved = row.moved_at > since_.births;
  needs_keys = needs_keys && !row.kept().empty();
  if (!is_good_ || (!has_appended && !has_moved && !needs_keys)) return Status::Ok();
  const uint64_t bytes = row_records * format::kKeyEntryBytes;
  if (memory_.size() < bytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(bytes, /*huge_pages=*/false, &memory_));
  }
  is_good_ = log_.slots().ReadKeys(bucket_, first_slot, row_records, memory_.data()).ok();
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(memory_.data());
  HeldSlots::Keys keys{};
  const SlotBits kept = row.kept();
  for (uint32_t i = 0; i < row_records && is_good_; ++i) {
    if (!cut_.Holds(first_slot + i)) continue;
    const uint64_t slot = first_slot + i;
    uint64_t sequence = 0;
    if (cut_.table.SequenceOf(slot, &sequence)) {
      if (sequence >= first_ && sequence < run_end) AddAppended(entries[i], slot);
      continue;
    }
    const bool is_new = row.birth > since_.births;
    KeyRecord record;
    if (!is_new && !needs_keys) continue;
    is_good_ = Decode(entries[i], slot, &record);
    keys[i] = record.key;
    // Kept records that were there at the moment are in the extents, or superseded there.
    if (is_new && (has_moved || record.sequence >= first_)) Add(record, row.moved_at);
  }
  if (needs_keys && is_good_) held->SetKeys(index, kept, keys);
  return Status::Ok();
}

bool IndexTail::Decode(const format::KeyEntry& entry, uint64_t slot, KeyRecord* record) const {
  return cut_.table.Decode(log_.codec(bucket_), entry, slot, record) &&
         log_.geometry().KeysOf(bucket_).Contains(record->key);
}

void IndexTail::AddAppended(const format::KeyEntry& entry, uint64_t slot) {
  KeyRecord record;
  is_good_ = Decode(entry, slot, &record);
  Add(record, /*moved_at=*/0);
}

void IndexTail::Add(const KeyRecord& record, uint64_t moved_at) {
  found_.push_back({record.sequence, moved_at, {record.key, ValueRef(record)}});
}

}  // namespace engine_race
