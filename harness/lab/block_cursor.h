// Blocks of any encoding: a builder, searches, and a cursor over the records.
//
// A cursor does not own the block. It belongs to one thread.
#ifndef HARNESS_LAB_BLOCK_CURSOR_H_
#define HARNESS_LAB_BLOCK_CURSOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "harness/lab/block_shape.h"
#include "harness/lab/node_search.h"
#include "harness/lab/restart_block.h"
#include "harness/lab/tree_block.h"

namespace engine_race::lab {

// The builder and the searches of a block of any encoding.
//
// Pure functions; thread-safe.

// May throw std::bad_alloc.
inline std::unique_ptr<BlockBuilder> MakeBlockBuilder(Encoding encoding, const TableShape& shape) {
  switch (encoding) {
    case Encoding::kTree:
      return std::make_unique<TreeBlockBuilder>(shape);
    case Encoding::kSquare:
      return std::make_unique<SquareBlockBuilder>(shape);
    case Encoding::kRestart:
      break;
  }
  return std::make_unique<RestartBlockBuilder>(shape);
}

// The payload of `key`, or null.
inline const char* FindInBlock(Encoding encoding, const char* block, const char* key,
                               NodeSearchFn search) {
  switch (encoding) {
    case Encoding::kTree:
      return TreeBlock(block).Find(key, search);
    case Encoding::kSquare:
      return SquareBlock(block).Find(key);
    case Encoding::kRestart:
      break;
  }
  return RestartBlock(block).Find(key);
}

// The number of the block's records with keys below `key`.
inline uint32_t LowerBoundInBlock(Encoding encoding, const char* block, const char* key,
                                  NodeSearchFn search) {
  switch (encoding) {
    case Encoding::kTree:
      return TreeBlock(block).LowerBound(key, search);
    case Encoding::kSquare:
      return SquareBlock(block).LowerBound(key);
    case Encoding::kRestart:
      break;
  }
  RestartBlock::Cursor cursor(block);
  cursor.Seek(key);
  return cursor.rank();
}

class BlockCursor {
 public:
  BlockCursor() = default;
  BlockCursor(Encoding encoding, const char* block) : block_(block), encoding_(encoding) {
    if (encoding == Encoding::kRestart) {
      restart_.emplace(block);
      record_count_ = RestartBlock(block).record_count();
    } else if (encoding == Encoding::kTree) {
      TakeShape(TreeBlock(block));
    } else {
      TakeShape(SquareBlock(block));
    }
  }

  // Moves to the first record at or above `key`.
  void Seek(const char* key, NodeSearchFn search) {
    if (encoding_ == Encoding::kRestart) {
      restart_->Seek(key);
      rank_ = restart_->rank();
    } else {
      GoTo(LowerBoundInBlock(encoding_, block_, key, search));
    }
  }
  // Moves to the record of this rank.
  void SeekRank(uint32_t rank) {
    if (encoding_ == Encoding::kRestart) {
      if (rank < record_count_) restart_->SeekRank(rank);
      rank_ = rank;
    } else {
      GoTo(rank);
    }
  }
  void Next() {
    ++rank_;
    if (encoding_ == Encoding::kRestart) {
      restart_->Next();
    } else {
      record_ += record_bytes_;
      CopyRest();
    }
  }

  bool valid() const { return rank_ < record_count_; }
  uint32_t rank() const { return rank_; }
  const char* key() const { return encoding_ == Encoding::kRestart ? restart_->key() : key_; }
  const char* payload() const {
    return encoding_ == Encoding::kRestart ? restart_->payload() : record_ + rest_bytes_;
  }

 private:
  template <typename Block>
  void TakeShape(const Block& block) {
    record_count_ = block.record_count();
    rest_bytes_ = block.rest_bytes();
    record_bytes_ = block.record_bytes();
    records_ = block.records();
    prefix_bytes_ = block.prefix_bytes();
    std::memcpy(key_, block.prefix(), prefix_bytes_);
  }
  void GoTo(uint32_t rank) {
    rank_ = rank;
    record_ = records_ + size_t{rank} * record_bytes_;
    CopyRest();
  }
  void CopyRest() {
    if (!valid()) return;
    // Copies 16 bytes at once when the block has them: a memcpy of a variable size is a call.
    if (rest_bytes_ <= 16 && record_bytes_ >= 16) [[likely]] {
      std::memcpy(key_ + prefix_bytes_, record_, 16);
    } else {
      std::memcpy(key_ + prefix_bytes_, record_, rest_bytes_);
    }
  }

  const char* block_ = nullptr;
  Encoding encoding_ = Encoding::kTree;
  uint32_t rank_ = 0;
  uint32_t record_count_ = 0;
  // For blocks whose records have one size.
  uint32_t prefix_bytes_ = 0;
  uint32_t rest_bytes_ = 0;
  uint32_t record_bytes_ = 0;
  const char* records_ = nullptr;
  const char* record_ = nullptr;
  char key_[kMaxKeyBytes + 16];
  // For blocks of other encodings.
  std::optional<RestartBlock::Cursor> restart_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_CURSOR_H_
