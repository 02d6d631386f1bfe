// A position in a table. Through the cache, a cursor pins the entry of its block. By pointer it
// pins nothing between calls, so it can be kept for any time. It copies a few records at a time,
// more each time, and finds its position again by the record's number, which never changes.

#include <algorithm>
#include <cstring>
#include <new>

#include "harness/lab/block_cursor.h"
#include "harness/lab/table.h"
#include "harness/lab/table_use.h"

namespace lab {

struct Table::Cursor::Impl {
  static constexpr uint32_t kFirstBatch = 8;
  static constexpr uint32_t kCopiesBytes = 8192;

  explicit Impl(const Table* of)
      : table(*of),
        by_pointer(table.options_.records == Reach::kPointer),
        record_bytes(table.key_bytes_ + table.payload_bytes_) {}

  // *there says whether there is a record at the new position.
  Status Seek(const char* key, bool* there);
  Status Next(bool* there);
  // Moves to the first record of the next block.
  Status NextBlock(bool* there);
  // Moves to the block's first record at or above `key`, or to the record of `rank` when `key` is
  // null.
  Status Enter(const char* key, bool* there);
  void Copy(const char* of_block, const char* key);

  const char* key() const { return by_pointer ? copies + copied_at : in_block.key(); }
  const char* payload() const {
    return by_pointer ? copies + copied_at + table.key_bytes_ : in_block.payload();
  }

  const Table& table;
  const bool by_pointer;
  const uint32_t record_bytes;
  uint32_t extent = 0;
  uint32_t block = 0;  // from 1 on
  // The rank of the first record that has not been copied.
  uint32_t rank = 0;
  // Through the cache.
  BlockCache::Pin pin;
  BlockCursor in_block;
  // By pointer: the records in copies[copied_at, copied_end) are still to be shown.
  uint32_t batch = kFirstBatch;
  uint32_t copied_at = 0;
  uint32_t copied_end = 0;
  bool block_ended = false;
  Region past_frames;
  char copies[kCopiesBytes];
};

Status Table::Cursor::Impl::Seek(const char* key, bool* there) {
  batch = kFirstBatch;
  rank = 0;
  extent = table.file_->root().Find(key);
  *there = false;
  if (extent == table.file_->extent_count()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(table.FindBlock(extent, key, &block));
  ENGINE_RACE_RETURN_IF_ERROR(Enter(key, there));
  return *there ? Status::Ok() : NextBlock(there);
}

Status Table::Cursor::Impl::Next(bool* there) {
  if (by_pointer) {
    copied_at += record_bytes;
    *there = copied_at < copied_end;
    if (!*there && !block_ended) return Enter(nullptr, there);
  } else {
    in_block.Next();
    *there = in_block.valid();
  }
  return *there ? Status::Ok() : NextBlock(there);
}

Status Table::Cursor::Impl::NextBlock(bool* there) {
  rank = 0;
  if (block++ == table.file_->block_count(extent)) {
    block = 1;
    ++extent;
  }
  *there = false;
  if (extent == table.file_->extent_count()) return Status::Ok();
  return Enter(nullptr, there);
}

Status Table::Cursor::Impl::Enter(const char* key, bool* there) {
  if (by_pointer) {
    ENGINE_RACE_RETURN_IF_ERROR(table.UseBlock(extent, block, &past_frames,
                                               [&](const char* of_block) { Copy(of_block, key); }));
    *there = copied_end > 0;
    return Status::Ok();
  }
  pin.Reset();
  ENGINE_RACE_RETURN_IF_ERROR(table.PinBlock(extent, block, &pin));
  in_block = BlockCursor(table.encoding_, pin.data());
  key == nullptr ? in_block.SeekRank(rank) : in_block.Seek(key, table.options_.search);
  *there = in_block.valid();
  return Status::Ok();
}

void Table::Cursor::Impl::Copy(const char* of_block, const char* key) {
  BlockCursor cursor(table.encoding_, of_block);
  key == nullptr ? cursor.SeekRank(rank) : cursor.Seek(key, table.options_.search);
  batch = std::min(batch, kCopiesBytes / record_bytes);
  copied_at = copied_end = 0;
  for (uint32_t i = 0; i < batch && cursor.valid(); ++i) {
    std::memcpy(copies + copied_end, cursor.key(), table.key_bytes_);
    std::memcpy(copies + copied_end + table.key_bytes_, cursor.payload(), table.payload_bytes_);
    copied_end += record_bytes;
    cursor.Next();
  }
  rank = cursor.rank();
  block_ended = !cursor.valid();
  batch *= 2;
}

Table::Cursor::Cursor(const Table* table) : impl_(new (std::nothrow) Impl(table)) {
  if (impl_ == nullptr) status_ = Status(Code::kOutOfMemory, {});
}

Table::Cursor::~Cursor() = default;

void Table::Cursor::Seek(const char* key) {
  key_ = nullptr;
  if (impl_ == nullptr) return;
  bool there = false;
  status_ = impl_->Seek(key, &there);
  Show(there && status_.ok());
}

void Table::Cursor::Next() {
  bool there = false;
  status_ = impl_->Next(&there);
  Show(there && status_.ok());
}

void Table::Cursor::Show(bool there) {
  key_ = there ? impl_->key() : nullptr;
  payload_ = there ? impl_->payload() : nullptr;
}

}  // namespace lab
