// The records that the slots of a bucket hold.
//
// The records of a bucket are numbered in the order of their appends: the sequence number. As long
// as no slot was used again, a record lies in the slot of its number. After that the bucket's slots
// are handed out by the row. A row holds a run of neighbouring numbers, or records that were moved
// out of other rows. Cells without live records are freed one by one.
//
// Moved records keep their keys and values and lose their numbers. They get the number of their
// row, which is higher than those of all rows that they came from. It is no higher than the number
// of records that the bucket had when they were found to be the newest of their keys. Such a record
// is newer than all records of its key with lower numbers, and older than all others. The order of
// a record combines both kinds of numbers: of two records of a key the one with the higher order is
// the newer.
//
// A value type; const calls are thread-safe. Invariant: no two rows hold the same run.
#ifndef ENGINE_RACE_LOG_SLOT_TABLE_H_
#define ENGINE_RACE_LOG_SLOT_TABLE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"

namespace engine_race {

struct Row {
  bool free() const { return kind == format::RowKind::kFree; }
  bool is_run() const { return kind == format::RowKind::kRun; }
  bool is_moved() const { return !free() && !is_run(); }

  format::RowKind kind = format::RowKind::kFree;
  // Of a run: its first sequence number, in rows. Of moved records: see SlotTable.
  uint64_t number = 0;
  // Of moved records: how many there are, from the row's first slot on.
  uint32_t record_count = 0;
  // A bit each.
  uint32_t freed_cells = 0;

  friend bool operator==(const Row&, const Row&) = default;
};

class SlotTable {
 public:
  // The run's first number, in rows, and the row that holds it.
  using Runs = std::map<uint64_t, uint32_t>;

  // Of a bucket whose slots are sequence numbers.
  SlotTable() = default;
  explicit SlotTable(const Geometry& geometry)
      : row_records_(geometry.row_records()), cell_records_(geometry.cell_records()) {}

  // Whether slots were used again, or may be: the rows say what the slots hold.
  bool has_rows() const { return has_rows_; }
  // From here on the rows count. Those of the first `record_count` records are runs in their own
  // slots.
  void BeginRows(uint64_t record_count);

  uint32_t row_records() const { return row_records_; }
  uint32_t cell_records() const { return cell_records_; }
  // The rows up to the last one that was ever used. None without has_rows().
  const std::vector<Row>& rows() const { return rows_; }
  void SetRow(uint32_t index, const Row& row);
  // SetRow of one of rows(). `run` has the row's run and its index, if it holds one. Throws
  // nothing.
  void SetRow(uint32_t index, const Row& row, Runs run) noexcept;

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
    if (row.free() || (row.freed_cells >> (in_row / cell_records_) & 1) != 0) return false;
    return row.is_run() ? row.number * row_records_ + in_row < record_count
                        : in_row < row.record_count;
  }
  // The lowest number that records may get which are moved out of the row, or to it after that.
  uint64_t EndOf(uint32_t index) const {
    if (!has_rows_) return (uint64_t{index} + 1) * row_records_;
    const Row& row = rows_[index];
    return row.is_run() ? (row.number + 1) * row_records_ : row.number + 1;
  }
  // Of a slot that holds a record.
  uint64_t OrderOf(uint64_t slot) const {
    if (!has_rows_) return OrderOfSequence(slot);
    const Row& row = rows_[slot / row_records_];
    return row.is_run() ? OrderOfSequence(row.number * row_records_ + slot % row_records_)
                        : 2 * row.number;
  }
  // The order of an appended record.
  static uint64_t OrderOfSequence(uint64_t sequence) { return 2 * sequence + 1; }
  // *sequence: of the record in the slot, if the row holds a run.
  bool SequenceOf(uint64_t slot, uint64_t* sequence) const {
    *sequence = slot;
    if (!has_rows_) return true;
    if (slot / row_records_ >= rows_.size()) return false;
    const Row& row = rows_[slot / row_records_];
    *sequence = row.number * row_records_ + slot % row_records_;
    return row.is_run();
  }

  // The record that the slot holds has a sequence number below this, whether or not it was moved.
  uint64_t SequenceEnd(uint64_t slot) const;

  // *slot: where the appended record with that number lies. False if no row holds its run.
  bool SlotOf(uint64_t sequence, uint64_t* slot) const {
    *slot = sequence;
    if (!has_rows_) return true;
    const auto found = runs_.find(sequence / row_records_);
    if (found == runs_.end()) return false;
    *slot = uint64_t{found->second} * row_records_ + sequence % row_records_;
    return true;
  }
  // Of a record that a row holds.
  uint64_t SlotOf(uint64_t sequence) const {
    uint64_t slot = 0;
    const bool found = SlotOf(sequence, &slot);
    ENGINE_RACE_ASSERT(found);
    return slot;
  }
  // One above the highest number that a run can hold. 0 without runs.
  uint64_t RunEnd() const { return runs_.empty() ? 0 : (runs_.rbegin()->first + 1) * row_records_; }
  // The rows that hold records, older ones first. The newer of two records of a key lies in a later
  // row than the other one, or behind it in the same row.
  std::vector<uint32_t> RowsInOrder() const;
  const Runs& runs() const { return runs_; }

  // Decodes the entry of a slot that holds a record. False: damaged, or the entry of another
  // record. record->sequence is the order.
  bool Decode(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
              KeyRecord* record) const;
  // Decode for an entry that may lie anywhere, of the appended record with that number.
  // record->slot is 0.
  static bool DecodeAppended(const EntryCodec& codec, const format::KeyEntry& entry,
                             uint64_t sequence, KeyRecord* record);
  // Decode for a slot that kept its entry although its row may be free by now.
  static bool DecodeKept(const EntryCodec& codec, const format::KeyEntry& entry, uint64_t slot,
                         KeyRecord* record);
  // The entry of a record that is appended with that number, or moved to `slot` of a row with that
  // number.
  static format::KeyEntry EncodeAppended(const EntryCodec& codec, KeyRecord record,
                                         uint64_t sequence);
  static format::KeyEntry EncodeMoved(const EntryCodec& codec, KeyRecord record, uint64_t slot,
                                      uint64_t number);

 private:
  uint32_t row_records_ = 1;
  uint32_t cell_records_ = 1;
  bool has_rows_ = false;
  std::vector<Row> rows_;
  Runs runs_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SLOT_TABLE_H_
