#include "engine_race/log/slot_table.h"

#include <algorithm>
#include <utility>

namespace engine_race {
namespace {

// For an entry that must have that number.
bool DecodeExactly(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t position,
                   uint64_t number, KeyRecord* record) {
  return codec.Decode(entry, static_cast<uint32_t>(position), number + 1, record) &&
         record->sequence == number;
}

}  // namespace

void SlotTable::BeginRows(uint64_t record_count) {
  ENGINE_RACE_ASSERT(!has_rows_ && rows_.empty());
  has_rows_ = true;
  const uint64_t row_count = (record_count + row_records_ - 1) / row_records_;
  for (uint64_t i = 0; i < row_count; ++i) {
    SetRow(static_cast<uint32_t>(i), {.kind = format::RowKind::kRun, .number = i});
  }
}

void SlotTable::SetRow(uint32_t index, const Row& row) {
  has_rows_ = true;
  if (index >= rows_.size()) rows_.resize(index + 1);
  Runs run;
  if (row.is_run()) run.emplace(row.number, index);
  SetRow(index, row, std::move(run));
}

void SlotTable::SetRow(uint32_t index, const Row& row, Runs run) noexcept {
  ENGINE_RACE_ASSERT(has_rows_ && index < rows_.size() && run.size() == (row.is_run() ? 1 : 0));
  if (rows_[index].is_run()) runs_.erase(rows_[index].number);
  rows_[index] = row;
  runs_.merge(run);
}

uint64_t SlotTable::SequenceEnd(uint64_t slot) const {
  uint64_t sequence = 0;
  return SequenceOf(slot, &sequence) ? sequence + 1 : rows_[slot / row_records_].number;
}

// Runs that end at or below the number of moved records come before these. No other run has an
// older record of their keys, because the number is above those of the rows that they came from.
std::vector<uint32_t> SlotTable::RowsInOrder() const {
  std::vector<uint32_t> order;
  for (uint32_t index = 0; index < rows_.size(); ++index) {
    if (!rows_[index].free()) order.push_back(index);
  }
  const auto place_of = [this](uint32_t index) {
    const Row& row = rows_[index];
    return std::pair(row.is_run() ? (row.number + 1) * row_records_ : row.number, row.is_moved());
  };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return place_of(a) < place_of(b); });
  return order;
}

bool SlotTable::Decode(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
                       KeyRecord* record) const {
  uint64_t sequence = 0;
  if (SequenceOf(slot, &sequence)) {
    if (!DecodeAppended(codec, entry, sequence, record)) return false;
  } else {
    const uint64_t number = rows_[slot / row_records_].number;
    if (!DecodeExactly(codec, entry, slot, number, record)) return false;
    record->sequence = 2 * number;
  }
  record->slot = static_cast<uint32_t>(slot);
  return true;
}

bool SlotTable::DecodeAppended(const EntryCodec& codec, const format::KeyEntry& entry,
                               uint64_t sequence, KeyRecord* record) {
  if (!DecodeExactly(codec, entry, sequence, sequence, record)) return false;
  record->sequence = OrderOfSequence(sequence);
  record->slot = 0;
  return true;
}

// The entry tells its number itself, and not whether that is of an append or of a moved row.
bool SlotTable::DecodeKept(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
                           KeyRecord* record) {
  const bool is_good = DecodeExactly(codec, entry, entry.sequence(), entry.sequence(), record) ||
                       DecodeExactly(codec, entry, slot, entry.sequence(), record);
  record->slot = static_cast<uint32_t>(slot);
  return is_good;
}

format::KeyEntry SlotTable::EncodeAppended(const EntryCodec& codec, KeyRecord record,
                                           uint64_t sequence) {
  record.slot = static_cast<uint32_t>(sequence);
  record.sequence = sequence;
  return codec.Encode(record);
}

format::KeyEntry SlotTable::EncodeMoved(const EntryCodec& codec, KeyRecord record, uint64_t slot,
                                        uint64_t number) {
  record.slot = static_cast<uint32_t>(slot);
  record.sequence = number;
  return codec.Encode(record);
}

}  // namespace engine_race
