#include "engine_race/index/index_tail.h"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

#include "engine_race/log/logged_records.h"

namespace engine_race {

Status IndexTail::Read(uint64_t oldest_births, std::vector<IndexEntry>* records, HeldSlots* held,
                       bool* is_good) {
  const SlotTable& table = cut_.table;
  found_.reserve(table.CountSince(since_, cut_.record_count));
  if (table.has_rows()) ENGINE_RACE_RETURN_IF_ERROR(ReadRows(oldest_births, held));
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

bool IndexTail::NeedsRow(uint32_t index, uint64_t oldest_births) {
  const Row& row = cut_.table.rows()[index];
  if (row.free()) return false;
  // Newer records of its keys need not be among those that came since.
  if (row.has_run() && row.birth > since_.births && row.number < first_) is_good_ = false;
  const uint64_t run_end = RunEnd(row);
  const bool has_appended = row.has_run() && run_end > first_ && row.number < run_end;
  return is_good_ && (has_appended || HasMoved(row) || NeedsKeys(row, oldest_births));
}

// Reads the rows that are needed, as many at once as `reads_` can.
Status IndexTail::ReadRows(uint64_t oldest_births, HeldSlots* held) {
  const std::vector<Row>& rows = cut_.table.rows();
  std::array<uint32_t, RowReads::kMaxRows> wanted;
  for (uint32_t index = 0; index < rows.size() && is_good_;) {
    size_t count = 0;
    for (; index < rows.size() && is_good_ && count < wanted.size(); ++index) {
      if (NeedsRow(index, oldest_births)) wanted[count++] = index;
    }
    if (count == 0 || !is_good_) continue;
    const Status read = reads_.Read(log_.slots(), bucket_, cut_.table.row_records(),
                                    std::span(wanted).first(count));
    if (read.code() == Code::kOutOfMemory) return read;
    is_good_ = read.ok();
    for (size_t i = 0; i < count && is_good_; ++i) {
      TakeRow(wanted[i], NeedsKeys(rows[wanted[i]], oldest_births), reads_.RowAt(i), held);
    }
  }
  return Status::Ok();
}

// Takes what is needed of a row's entries.
void IndexTail::TakeRow(uint32_t index, bool needs_keys, const format::KeyEntry* entries,
                        HeldSlots* held) {
  const Row& row = cut_.table.rows()[index];
  const uint32_t row_records = cut_.table.row_records();
  const uint64_t first_slot = uint64_t{index} * row_records;
  const uint64_t run_end = RunEnd(row);
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
    if (is_new && (HasMoved(row) || record.sequence >= first_)) Add(record, row.moved_at);
  }
  if (needs_keys && is_good_) held->SetKeys(index, kept, keys);
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
