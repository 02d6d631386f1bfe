// The cache-friendly block: a tree of two levels over runs of records.
//
// A lookup touches the header and the root (three neighbouring lines), one line of a leaf, and the
// two or three lines of a run, each known from the one before; a binary search of a restart array
// jumps between the array and the records six or seven times.
//
// Layout: header, words of the nodes, records. A record is its key without the block's common
// prefix, then its payload, so all records are of one size and the offset of a run is a
// multiplication, not another load. Runs have as many records as it takes for the block to be full
// with at most 128 of them.
//
// A TreeBlock is a view: it does not own the bytes. Const calls are thread-safe.
#ifndef ENGINE_RACE_L1_TREE_BLOCK_H_
#define ENGINE_RACE_L1_TREE_BLOCK_H_

#include <cstdint>
#include <cstring>

#include "engine_race/l1/block_builder.h"
#include "engine_race/l1/key_words.h"
#include "engine_race/l1/node_search.h"
#include "engine_race/l1/table_shape.h"

namespace engine_race::l1 {

struct TreeBlockHeader {
  uint8_t encoding;
  uint8_t prefix_bytes;
  uint8_t rest_bytes;  // of a key, after the prefix
  uint8_t run_records;
  uint16_t record_count;
  uint16_t run_count;
  uint16_t record_bytes;  // rest and payload
  char prefix[kMaxKeyBytes];
  char unused[64 - 10 - kMaxKeyBytes];
};
static_assert(sizeof(TreeBlockHeader) == 64);

class TreeBlock {
 public:
  static constexpr uint32_t kRecordsOffset = sizeof(TreeBlockHeader) + sizeof(NodeWords);

  // `block` is kBlockBytes long, aligned to a cache line, and holds a block of this encoding.
  explicit TreeBlock(const char* block) : block_(block) {}

  uint32_t record_count() const { return header().record_count; }

  // The payload of `key`, or null.
  const char* Find(const char* key, NodeSearchFn search) const;

  // How many records have keys below `key`.
  uint32_t LowerBound(const char* key, NodeSearchFn search) const;

  void CopyKey(uint32_t rank, char* key) const {
    std::memcpy(key, header().prefix, header().prefix_bytes);
    std::memcpy(key + header().prefix_bytes, Record(rank), header().rest_bytes);
  }
  const char* Payload(uint32_t rank) const { return Record(rank) + header().rest_bytes; }

 private:
  const TreeBlockHeader& header() const {
    return *reinterpret_cast<const TreeBlockHeader*>(block_);
  }
  const NodeWords& nodes() const {
    return *reinterpret_cast<const NodeWords*>(block_ + sizeof(TreeBlockHeader));
  }
  const char* Record(uint32_t rank) const {
    return block_ + kRecordsOffset + rank * header().record_bytes;
  }
  uint64_t WordAt(uint32_t rank) const { return WordOf(Record(rank), header().rest_bytes); }
  // Of the key and the block's prefix: below zero, zero, above zero.
  int ComparePrefix(const char* key) const;
  // Of the record's suffix and that of the key whose rest is given, the words being equal.
  int CompareSuffix(uint32_t rank, const char* rest) const {
    const uint32_t bytes = header().rest_bytes;
    return bytes <= kWordBytes
               ? 0
               : std::memcmp(Record(rank) + kWordBytes, rest + kWordBytes, bytes - kWordBytes);
  }
  // LowerBound among the records whose word is `word`, from `rank` on.
  uint32_t PassSuffixes(uint32_t rank, uint64_t word, const char* rest) const;
  // The last run before `run` whose head is not above the key, or the first. The key's word is
  // `word`.
  uint32_t RunBefore(uint32_t run, uint64_t word, const char* rest) const;
  uint32_t LowerBoundInRun(uint64_t word, const char* rest, NodeSearchFn search) const;

  const char* const block_;
};

// Collects the records of one block.
class TreeBlockBuilder final : public BlockBuilder {
 public:
  explicit TreeBlockBuilder(const TableShape& shape) : BlockBuilder(shape) {}
  bool Fits(const char* key) const override;
  void Encode(char* block) const override;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_TREE_BLOCK_H_
