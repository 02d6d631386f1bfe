// A position in a table. Through the cache, a cursor pins the entry of its block. By pointer it
// pins nothing between calls, so it can be kept for any time. It copies a few records at a time,
// more each time, and finds its position again by the record's number, which never changes.
//
// Belongs to one thread. The table outlives it.
#ifndef HARNESS_LAB_TABLE_CURSOR_H_
#define HARNESS_LAB_TABLE_CURSOR_H_

#include <cstdint>

#include "harness/lab/block_cursor.h"
#include "harness/lab/table.h"

namespace engine_race::lab {

class TableCursor {
 public:
  explicit TableCursor(const Table* table)
      : table_(*table), by_pointer_(table->options_.records == Reach::kPointer) {}
  TableCursor(const TableCursor&) = delete;
  TableCursor& operator=(const TableCursor&) = delete;

  // Moves to the first record at or above `key`.
  void Seek(const char* key) { Show(MoveTo(key)); }
  // Moves to the next record, from a valid one.
  void Next() { Show(MoveOn()); }
  bool valid() const { return key_ != nullptr; }
  // These are valid until the cursor moves.
  const char* key() const { return key_; }
  const char* payload() const { return payload_; }
  // Ok at the table's end; otherwise why the cursor is not valid.
  const Status& status() const { return status_; }

 private:
  static constexpr uint32_t kFirstBatch = 8;
  static constexpr uint32_t kCopiesBytes = 8192;

  // These set is_there_: whether there is a record at the new position.
  Status MoveTo(const char* key);
  Status MoveOn();
  // Moves to the first record of the next block.
  Status NextBlock();
  // Moves to the block's first record at or above `key`, or to the record of rank_ when `key` is
  // null.
  Status Enter(const char* key);
  void Copy(const char* of_block, const char* key);
  void Show(Status status);

  const Table& table_;
  const bool by_pointer_;
  bool is_there_ = false;
  // Null when it is not valid.
  const char* key_ = nullptr;
  const char* payload_ = nullptr;
  Status status_;
  uint32_t extent_ = 0;
  uint32_t block_ = 0;  // from 1 on
  // The rank of the first record that has not been copied.
  uint32_t rank_ = 0;
  // Through the cache.
  BlockCache::Pin pin_;
  BlockCursor in_block_;
  // By pointer: the records in copies_[copied_at_, copied_end_) are still to be shown.
  uint32_t batch_ = kFirstBatch;
  uint32_t copied_at_ = 0;
  uint32_t copied_end_ = 0;
  bool block_ended_ = false;
  char copies_[kCopiesBytes];
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_TABLE_CURSOR_H_
