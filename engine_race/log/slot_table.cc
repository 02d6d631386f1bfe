#include "engine_race/log/slot_table.h"

#include <algorithm>
#include <utility>

namespace engine_race {
namespace {

uint64_t AppendedPosition(uint64_t sequence) { return static_cast<uint32_t>(sequence); }

uint64_t MovedPosition(uint64_t slot, uint64_t seal) { return slot + seal * 0x589965cc75374cc3; }

}  // namespace

void SlotTable::BeginRows(uint64_t record_count) {
  ENGINE_RACE_ASSERT(!has_rows_ && rows_.empty());
  has_rows_ = true;
  const SlotBits all = SlotBits::First(row_records_);
  for (uint64_t first = 0; first < record_count; first += row_records_) {
    SetRow(static_cast<uint32_t>(first / row_records_),
           {.kind = format::RowKind::kUsed, .number = first, .path = all, .held = all});
  }
}

void SlotTable::SetRow(uint32_t index, const Row& row) {
  has_rows_ = true;
  if (index >= rows_.size()) rows_.resize(index + 1);
  Runs run;
  if (row.has_run()) run.emplace(row.number, index);
  SetRow(index, row, std::move(run));
}

void SlotTable::SetRow(uint32_t index, const Row& row, Runs run) noexcept {
  ENGINE_RACE_ASSERT(has_rows_ && index < rows_.size() && run.size() == (row.has_run() ? 1 : 0));
  if (rows_[index].has_run()) runs_.erase(rows_[index].number);
  rows_[index] = row;
  births_ = std::max(births_, row.birth);
  runs_.merge(run);
}

uint64_t SlotTable::FirstSince(const BucketMoment& since) const {
  uint64_t first = since.record_count;
  for (const Row& row : rows_) {
    if (row.moved_at > since.births && !row.kept().empty()) first = std::min(first, row.horizon);
  }
  return first;
}

uint64_t SlotTable::CountSince(const BucketMoment& since, uint64_t record_count) const {
  uint64_t count = record_count - std::min(record_count, FirstSince(since));
  for (const Row& row : rows_) {
    if (row.moved_at > since.births) count += row.kept().count();
  }
  return count;
}

// Kept records may have been appended or moved. Those of a row that is moved to were moved: an
// entry that its slot held before, of whatever number, is none of them. Others are older than the
// run or the move. A free row does not say how old its records were.
bool SlotTable::Decode(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
                       KeyRecord* record) const {
  uint64_t sequence = 0;
  bool is_good = false;
  if (SequenceOf(slot, &sequence)) {
    is_good = DecodeAppended(codec, entry, sequence, record);
  } else {
    ENGINE_RACE_ASSERT(slot / row_records_ < rows_.size());
    const Row& row = rows_[slot / row_records_];
    is_good = !row.is_moving() && (row.free() || entry.sequence() < row.number) &&
              DecodeAppended(codec, entry, entry.sequence(), record);
    if (!is_good) {
      is_good = row.seal != 0 && (row.free() || entry.sequence() < row.horizon) &&
                codec.Decode(entry, MovedPosition(slot, row.seal), record);
    }
  }
  record->slot = static_cast<uint32_t>(slot);
  return is_good;
}

bool SlotTable::DecodeAppended(const EntryCodec& codec, const format::KeyEntry& entry,
                               uint64_t sequence, KeyRecord* record) {
  record->slot = 0;
  return codec.Decode(entry, AppendedPosition(sequence), record) && record->sequence == sequence;
}

format::KeyEntry SlotTable::EncodeAppended(const EntryCodec& codec, KeyRecord record,
                                           uint64_t sequence) {
  record.sequence = sequence;
  return codec.Encode(record, AppendedPosition(sequence));
}

format::KeyEntry SlotTable::EncodeMoved(const EntryCodec& codec, const KeyRecord& record,
                                        uint64_t slot, uint64_t seal) {
  ENGINE_RACE_ASSERT(seal != 0);
  return codec.Encode(record, MovedPosition(slot, seal));
}

}  // namespace engine_race
