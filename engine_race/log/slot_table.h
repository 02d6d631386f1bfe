// The records that the slots of a bucket hold.
//
// The records of a bucket are numbered in the order of their appends: the sequence number. As long
// as no slot was used again, a record lies in the slot of its number. After that rows say what the
// slots hold: see row.h. The tail of the bucket begins its runs in free rows, and in the gaps of
// others: slots that hold nothing any more.
//
// Moved records keep their sequence numbers: of two records of a key the one with the higher number
// is the newer. Until the slots that it was moved from are freed, a record has copies. The index
// names the latest copy, and a cleaner may free the others.
//
// The position of an entry, which its check covers, is the low half of the sequence number of an
// appended record. So the entry is the same wherever its run lies. The position of a moved record
// combines its slot and the seal of its row.
//
// A value type; const calls are thread-safe. Invariants: no two rows hold the same run; no birth is
// above births(), which never falls.
#ifndef ENGINE_RACE_LOG_SLOT_TABLE_H_
#define ENGINE_RACE_LOG_SLOT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/row.h"

namespace engine_race {

// Neighbouring slots.
struct SlotPiece {
  uint64_t slot = 0;
  uint64_t count = 0;
};

class SlotTable {
 public:
  // The run's first number, and the row that holds it.
  using Runs = std::map<uint64_t, uint32_t>;

  // Of a bucket whose slots are sequence numbers.
  SlotTable() = default;
  explicit SlotTable(const Geometry& geometry) : row_records_(geometry.row_records()) {}

  // Whether slots were used again, or may be: the rows say what the slots hold.
  bool has_rows() const { return has_rows_; }
  // From here on the rows count. Those of the first `record_count` records are runs in their own
  // slots.
  void BeginRows(uint64_t record_count);

  uint32_t row_records() const { return row_records_; }
  // The rows up to the last one that was ever used. None without has_rows().
  const std::vector<Row>& rows() const { return rows_; }
  // Takes memory for so many rows.
  void Reserve(uint64_t row_count) { rows_.reserve(row_count); }
  void SetRow(uint32_t index, const Row& row);
  // SetRow of one of rows(). `run` has the row's run and its index, if it holds one. Throws
  // nothing.
  void SetRow(uint32_t index, const Row& row, Runs run) noexcept;

  // Births so far.
  uint64_t births() const { return births_; }
  // There were at least so many.
  void RaiseBirths(uint64_t births) { births_ = std::max(births_, births); }
  // The first birth of a new era.
  uint64_t NextEra() const { return (births_ / kEraBirths + 1) * kEraBirths; }
  // Whether both are births of one era.
  static bool IsOneEra(uint64_t a, uint64_t b) { return a / kEraBirths == b / kEraBirths; }
  // The first appended record of those that came since then. Together with the rows that were born
  // since, they have what is newer than the moved records of these rows.
  uint64_t FirstSince(const BucketMoment& since) const;
  // How many records came since then, about. The bucket has `record_count`.
  uint64_t CountSince(const BucketMoment& since, uint64_t record_count) const;

  // How many slots, from the first one on, may hold records when the bucket has `record_count`.
  uint64_t SlotEnd(uint64_t record_count) const {
    return has_rows_ ? rows_.size() * row_records_ : record_count;
  }
  // Whether the slot holds a record of a bucket that has had `record_count` records.
  bool Holds(uint64_t slot, uint64_t record_count) const {
    if (!has_rows_) return slot < record_count;
    const uint64_t row_index = slot / row_records_;
    if (row_index >= rows_.size()) return false;
    const Row& row = rows_[row_index];
    const auto in_row = static_cast<uint32_t>(slot % row_records_);
    return row.held.Has(in_row) &&
           (!row.path.Has(in_row) || row.number + row.path.CountBefore(in_row) < record_count);
  }
  // *sequence: of the record in the slot, if it belongs to a run.
  bool SequenceOf(uint64_t slot, uint64_t* sequence) const {
    *sequence = slot;
    if (!has_rows_) return true;
    if (slot / row_records_ >= rows_.size()) return false;
    const Row& row = rows_[slot / row_records_];
    const auto in_row = static_cast<uint32_t>(slot % row_records_);
    *sequence = row.number + row.path.CountBefore(in_row);
    return row.path.Has(in_row);
  }

  // The record that the slot holds has a sequence number below this. Its entry may be damaged.
  uint64_t SequenceEnd(uint64_t slot) const {
    uint64_t sequence = 0;
    if (SequenceOf(slot, &sequence)) return sequence + 1;
    const Row& row = rows_[slot / row_records_];
    return std::max(row.number, row.horizon);
  }
  // The record with that sequence number, which the slot holds, is the newest of its key among
  // those with numbers below this, at least.
  uint64_t NewestBelow(uint64_t slot, uint64_t sequence) const {
    const uint64_t row = slot / row_records_;
    return std::max(sequence + 1, has_rows_ && row < rows_.size() ? rows_[row].horizon : 0);
  }
  // Of two slots that hold copies of one record: whether that in slot `a` is the later one.
  bool IsLaterCopy(uint64_t a, uint64_t b) const {
    return has_rows_ && rows_[a / row_records_].moved_at > rows_[b / row_records_].moved_at;
  }

  // *slot: where the appended record with that number lies. False if no row holds its run.
  bool SlotOf(uint64_t sequence, uint64_t* slot) const {
    *slot = sequence;
    if (!has_rows_) return true;
    const auto run = RunOf(sequence);
    if (run == runs_.end()) return false;
    const Row& row = rows_[run->second];
    *slot = uint64_t{run->second} * row_records_ +
            row.path.Nth(static_cast<uint32_t>(sequence - row.number));
    return true;
  }
  // With rows: the end of the run that has the number; the number itself if no row holds its run.
  uint64_t RunEndFrom(uint64_t sequence) const {
    const auto run = RunOf(sequence);
    return run == runs_.end() ? sequence : rows_[run->second].run_end();
  }
  // Of a record that a row holds.
  uint64_t SlotOf(uint64_t sequence) const {
    uint64_t slot = 0;
    const bool found = SlotOf(sequence, &slot);
    ENGINE_RACE_ASSERT(found);
    return slot;
  }
  // Of the appended records [sequence, end): the slot of the first one, and how many of them lie in
  // neighbouring slots from there on. No slots: no row holds the first one's run.
  SlotPiece PieceFrom(uint64_t sequence, uint64_t end) const {
    if (!has_rows_) return {sequence, end - sequence};
    uint64_t slot = 0;
    if (!SlotOf(sequence, &slot)) return {};
    const auto in_row = static_cast<uint32_t>(slot % row_records_);
    const uint64_t neighbours = rows_[slot / row_records_].path.EndFrom(in_row) - in_row;
    return {slot, std::min(end - sequence, neighbours)};
  }
  // One above the highest number that a run can hold. 0 without runs.
  uint64_t RunEnd() const { return runs_.empty() ? 0 : rows_[runs_.rbegin()->second].run_end(); }
  const Runs& runs() const { return runs_; }

  // Decodes the entry of a slot that holds a record, or that held one when its row was freed.
  // False: damaged, or the entry of another record.
  bool Decode(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
              KeyRecord* record) const;
  // Decode for an entry that may lie anywhere, of the appended record with that number.
  // record->slot is 0.
  static bool DecodeAppended(const EntryCodec& codec, const format::KeyEntry& entry,
                             uint64_t sequence, KeyRecord* record);
  // The entry of a record that is appended with that number, or moved to `slot` of a row with that
  // seal.
  static format::KeyEntry EncodeAppended(const EntryCodec& codec, KeyRecord record,
                                         uint64_t sequence);
  static format::KeyEntry EncodeMoved(const EntryCodec& codec, const KeyRecord& record,
                                      uint64_t slot, uint64_t seal);

 private:
  Runs::const_iterator RunOf(uint64_t sequence) const {
    auto run = runs_.upper_bound(sequence);
    if (run == runs_.begin()) return runs_.end();
    --run;
    return sequence < rows_[run->second].run_end() ? run : runs_.end();
  }

  static constexpr uint64_t kEraBirths = uint64_t{1} << 24;

  uint32_t row_records_ = 1;
  bool has_rows_ = false;
  uint64_t births_ = 0;
  std::vector<Row> rows_;
  Runs runs_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SLOT_TABLE_H_
