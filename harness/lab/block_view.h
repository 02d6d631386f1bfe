// The builder and the searches of a block of any encoding.
//
// Pure functions; thread-safe.
#ifndef HARNESS_LAB_BLOCK_VIEW_H_
#define HARNESS_LAB_BLOCK_VIEW_H_

#include <cstdint>
#include <memory>

#include "harness/lab/engine_names.h"
#include "harness/lab/node_search.h"
#include "harness/lab/restart_block.h"
#include "harness/lab/tree_block.h"

namespace engine_race::lab {

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

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_VIEW_H_
