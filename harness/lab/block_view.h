// A block of whichever encoding: what lookups ask of all of them.
//
// Pure functions of the block's bytes; thread-safe.
#ifndef HARNESS_LAB_BLOCK_VIEW_H_
#define HARNESS_LAB_BLOCK_VIEW_H_

#include <cstdint>

#include "engine_race/l1/restart_block.h"
#include "engine_race/l1/square_block.h"
#include "engine_race/l1/table_shape.h"
#include "engine_race/l1/tree_block.h"

namespace engine_race::l1 {

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

// How many records of the block have keys below `key`.
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

}  // namespace engine_race::l1

#endif  // HARNESS_LAB_BLOCK_VIEW_H_
