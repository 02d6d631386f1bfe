#include "harness/lab/encoding.h"

#include <memory>
#include <string>

#include "harness/lab/restart_block.h"
#include "harness/lab/square_block.h"

namespace lab {

namespace {

template <typename Builder>
std::unique_ptr<BlockBuilder> Make(const TableShape& shape) {
  return std::make_unique<Builder>(shape);
}

constexpr BlockEncoding kRestartBlocks = {static_cast<uint32_t>(Encoding::kRestart),
                                          Make<RestartBlockBuilder>};
constexpr BlockEncoding kSquareBlocks = {static_cast<uint32_t>(Encoding::kSquare),
                                         Make<SquareBlockBuilder>};

}  // namespace

const BlockEncoding& BlocksIn(Encoding encoding) {
  switch (encoding) {
    case Encoding::kRestart:
      return kRestartBlocks;
    case Encoding::kSquare:
      return kSquareBlocks;
    case Encoding::kTree:
      break;
  }
  return lab::kTreeEncoding;
}

Status EncodingOf(const ExtentFile& file, Encoding* encoding) {
  for (const Encoding known : {Encoding::kRestart, Encoding::kSquare, Encoding::kTree}) {
    if (file.encoding() != static_cast<uint32_t>(known)) continue;
    *encoding = known;
    return Status::Ok();
  }
  return Status::NotSupported("l1: blocks of encoding " + std::to_string(file.encoding()));
}

}  // namespace lab
