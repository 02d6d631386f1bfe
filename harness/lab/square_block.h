// A tree of two levels over runs of records; its fanout is the square root of the number of runs.
// The tree block grew out of this shape, which is kept for comparison.
//
// Layout: header, root, leaves, records. An entry of a node is a key without the block's common
// prefix; in a leaf the two-byte offset of a run follows it. Nodes are searched from front to back.
// Records are as in the tree block.
//
// A SquareBlock is a view: it does not own the bytes. Const calls are thread-safe.
#ifndef HARNESS_LAB_SQUARE_BLOCK_H_
#define HARNESS_LAB_SQUARE_BLOCK_H_

#include <cstdint>

#include "harness/lab/block_builder.h"
#include "harness/lab/engine_names.h"

namespace engine_race::lab {

struct SquareBlockHeader {
  uint8_t encoding;
  uint8_t prefix_bytes;
  uint8_t rest_bytes;
  uint8_t fanout;
  uint16_t record_count;
  uint16_t run_count;
  uint16_t record_bytes;
  uint16_t leaves_offset;
  uint16_t records_offset;
  char prefix[kMaxKeyBytes];
  uint16_t unused;
};
static_assert(sizeof(SquareBlockHeader) == 48);

class SquareBlock {
 public:
  static constexpr uint32_t kRunRecords = 8;

  explicit SquareBlock(const char* block) : block_(block) {}

  uint32_t record_count() const { return header().record_count; }
  // The payload of `key`, or null.
  const char* Find(const char* key) const;
  // The number of records with keys below `key`.
  uint32_t LowerBound(const char* key) const;

  // The common prefix of all keys, then the records: each has the rest of its key, then its
  // payload.
  const char* prefix() const { return header().prefix; }
  uint32_t prefix_bytes() const { return header().prefix_bytes; }
  uint32_t rest_bytes() const { return header().rest_bytes; }
  uint32_t record_bytes() const { return header().record_bytes; }
  const char* records() const { return block_ + header().records_offset; }

  const char* Payload(uint32_t rank) const { return Record(rank) + header().rest_bytes; }

 private:
  const SquareBlockHeader& header() const {
    return *reinterpret_cast<const SquareBlockHeader*>(block_);
  }
  const char* Record(uint32_t rank) const {
    return block_ + header().records_offset + rank * header().record_bytes;
  }

  const char* const block_;
};

class SquareBlockBuilder final : public BlockBuilder {
 public:
  explicit SquareBlockBuilder(const TableShape& shape) : BlockBuilder(shape) {}
  bool Fits(const char* key) const override;
  uint32_t Encode(char* block) const override;

 private:
  SquareBlockHeader HeaderFor(uint32_t count, uint32_t prefix_bytes) const;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_SQUARE_BLOCK_H_
