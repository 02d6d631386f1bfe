// The baseline block: prefix compression with restart points, as LevelDB's and RocksDB's tables
// have it, trimmed for keys and payloads of fixed sizes.
//
// Layout: entries, restart array, trailer. An entry is the number of bytes that its key shares with
// the key before it, the rest of the key, and the payload. Every sixteenth entry shares no bytes,
// and the restart array has its offset: a restart point. A lookup is a binary search of the restart
// points, then a walk from one.
//
// A RestartBlock is a view: it does not own the bytes. Const calls are thread-safe.
#ifndef HARNESS_LAB_RESTART_BLOCK_H_
#define HARNESS_LAB_RESTART_BLOCK_H_

#include <cstdint>
#include <cstring>

#include "harness/lab/block_shape.h"

namespace engine_race::lab {

struct RestartBlockTrailer {
  uint8_t encoding;
  uint8_t key_bytes;
  uint16_t payload_bytes;
  uint16_t record_count;
  uint16_t restart_count;
  uint16_t restarts_offset;
  uint16_t unused[3];
};
static_assert(sizeof(RestartBlockTrailer) == 16);

class RestartBlock {
 public:
  static constexpr uint32_t kRestartInterval = 16;
  static constexpr uint32_t kTrailerOffset = kBlockBytes - sizeof(RestartBlockTrailer);

  explicit RestartBlock(const char* block) : block_(block) {}

  uint32_t record_count() const { return trailer().record_count; }
  // The payload of `key`, or null.
  const char* Find(const char* key) const;

  // Stands at a record and holds its whole key.
  class Cursor;

 private:
  const RestartBlockTrailer& trailer() const {
    return *reinterpret_cast<const RestartBlockTrailer*>(block_ + kTrailerOffset);
  }
  const char* RestartEntry(uint32_t restart) const {
    uint16_t offset;
    std::memcpy(&offset, block_ + trailer().restarts_offset + 2 * restart, sizeof(offset));
    return block_ + offset;
  }
  // The last restart point whose key is at or below `key`; the first when there is none.
  uint32_t FindRestart(const char* key) const;

  const char* block_;
};

class RestartBlock::Cursor {
 public:
  explicit Cursor(const char* block) : block_(block) {}
  bool valid() const { return rank_ < block_.trailer().record_count; }
  uint32_t rank() const { return rank_; }
  const char* key() const { return key_; }
  const char* payload() const {
    return entry_ + 1 + block_.trailer().key_bytes - static_cast<uint8_t>(entry_[0]);
  }
  // Moves to the first record at or after `key`.
  void Seek(const char* key);
  // Moves to the record of this rank, which must exist.
  void SeekRank(uint32_t rank);
  void Next();

 private:
  void GoToRestart(uint32_t restart);
  void Decode();

  RestartBlock block_;
  const char* entry_ = nullptr;
  uint32_t rank_ = 0;
  char key_[kMaxKeyBytes];
};

class RestartBlockBuilder final : public BlockBuilder {
 public:
  explicit RestartBlockBuilder(const TableShape& shape) : BlockBuilder(shape) {}
  bool Fits(const char* key) const override;
  uint32_t Encode(char* block) const override;

 private:
  // The bytes of the entry of `key` at this rank.
  size_t EntryBytes(uint32_t rank, const char* key) const;
  // The bytes of the entries that Fits has counted so far, and their number.
  mutable size_t entry_bytes_ = 0;
  mutable uint32_t counted_ = 0;
};

// A tree of two levels over runs of records; its fanout is the square root of the number of runs.
// The tree block grew out of this shape, which is kept for comparison.
//
// Layout: header, root, leaves, records. An entry of a node is a key without the block's common
// prefix; in a leaf the two-byte offset of a run follows it. Nodes are searched from front to back.
// Records are as in the tree block.
//
// A SquareBlock is a view: it does not own the bytes. Const calls are thread-safe.
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

#endif  // HARNESS_LAB_RESTART_BLOCK_H_
