#include "engine_race/l1/block_builder.h"

#include "engine_race/l1/restart_block.h"
#include "engine_race/l1/square_block.h"
#include "engine_race/l1/tree_block.h"

namespace engine_race::l1 {

std::unique_ptr<BlockBuilder> BlockBuilder::Make(Encoding encoding, const TableShape& shape) {
  switch (encoding) {
    case Encoding::kRestart:
      return std::make_unique<RestartBlockBuilder>(shape);
    case Encoding::kSquare:
      return std::make_unique<SquareBlockBuilder>(shape);
    case Encoding::kTree:
      return std::make_unique<TreeBlockBuilder>(shape);
  }
  return nullptr;
}

}  // namespace engine_race::l1
