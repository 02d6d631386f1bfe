#include "harness/lab/table_cursor.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace engine_race::lab {

Status TableCursor::MoveTo(const char* key) {
  batch_ = kFirstBatch;
  rank_ = 0;
  is_there_ = false;
  extent_ = table_.root_.Find(key);
  if (extent_ == table_.extent_count()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(table_.FindBlock(extent_, key, &block_));
  ENGINE_RACE_RETURN_IF_ERROR(Enter(key));
  return is_there_ ? Status::Ok() : NextBlock();
}

Status TableCursor::MoveOn() {
  if (by_pointer_) {
    copied_at_ += table_.shape_.record_bytes();
    is_there_ = copied_at_ < copied_end_;
    if (!is_there_ && !block_ended_) return Enter(nullptr);
  } else {
    in_block_.Next();
    is_there_ = in_block_.valid();
  }
  return is_there_ ? Status::Ok() : NextBlock();
}

Status TableCursor::NextBlock() {
  rank_ = 0;
  if (block_++ == table_.block_counts_[extent_]) {
    block_ = 1;
    ++extent_;
  }
  is_there_ = false;
  return extent_ == table_.extent_count() ? Status::Ok() : Enter(nullptr);
}

Status TableCursor::Enter(const char* key) {
  if (by_pointer_) {
    ENGINE_RACE_RETURN_IF_ERROR(
        table_.UseBlock(extent_, block_, [&](const char* of_block) { Copy(of_block, key); }));
    is_there_ = copied_end_ > 0;
    return Status::Ok();
  }
  pin_.Reset();
  ENGINE_RACE_RETURN_IF_ERROR(table_.Pin(extent_, block_, &pin_));
  in_block_ = BlockCursor(table_.options_.encoding, pin_.data());
  key == nullptr ? in_block_.SeekRank(rank_) : in_block_.Seek(key, table_.options_.search);
  is_there_ = in_block_.valid();
  return Status::Ok();
}

void TableCursor::Copy(const char* of_block, const char* key) {
  const TableShape& shape = table_.shape_;
  BlockCursor cursor(table_.options_.encoding, of_block);
  key == nullptr ? cursor.SeekRank(rank_) : cursor.Seek(key, table_.options_.search);
  batch_ = std::min(batch_, kCopiesBytes / shape.record_bytes());
  copied_at_ = copied_end_ = 0;
  for (uint32_t i = 0; i < batch_ && cursor.valid(); ++i) {
    std::memcpy(copies_ + copied_end_, cursor.key(), shape.key_bytes);
    std::memcpy(copies_ + copied_end_ + shape.key_bytes, cursor.payload(), shape.payload_bytes);
    copied_end_ += shape.record_bytes();
    cursor.Next();
  }
  rank_ = cursor.rank();
  block_ended_ = !cursor.valid();
  batch_ *= 2;
}

void TableCursor::Show(Status status) {
  status_ = std::move(status);
  key_ = payload_ = nullptr;
  if (!is_there_ || !status_.ok()) return;
  key_ = by_pointer_ ? copies_ + copied_at_ : in_block_.key();
  payload_ = by_pointer_ ? key_ + table_.shape_.key_bytes : in_block_.payload();
}

}  // namespace engine_race::lab
