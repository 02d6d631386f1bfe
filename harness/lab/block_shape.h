// The blocks of a table, their encodings, and the entries that index them.
//
// The records of a table lie in blocks of 16 KiB, ordered by key as strings of bytes. An extent of
// 2 MiB is 127 blocks of records and the block that indexes them, which has the same format.
#ifndef HARNESS_LAB_BLOCK_SHAPE_H_
#define HARNESS_LAB_BLOCK_SHAPE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/base/swip.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/touch.h"
#include "engine_race/io/file.h"
#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_pool.h"
#include "engine_race/l1/key_search.h"
#include "harness/load/l1_lookups.h"

namespace engine_race::lab {

// The names of the engine, and of the records in tables, that the lab's variants are built from.

using harness::kMaxKeyBytes;
using harness::kMaxPayloadBytes;
using harness::TableShape;
using l1::BlockOwner;
using l1::EpochManager;
using l1::FrameInfo;
using l1::FrameKind;
using l1::FramePool;
using l1::GuessRank;
using l1::kNoFrame;

// Keys as words: the part of a key that tells it from its neighbours in a block.
//
// All keys of a block begin with the same bytes, which the block stores once. The next eight bytes
// of a key, as a number, are its significant word. Registers compare numbers, and in nearly every
// comparison the words decide. The bytes after the word are the suffix, which is looked at only
// when words are equal. A key that ends within its word is filled up with zeros.

inline constexpr uint32_t kWordBytes = 8;

// Eight bytes as a number whose order is the order of the bytes.
inline uint64_t LoadWord(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

// The significant word of `rest_bytes` > 0 bytes at `rest`. Always reads eight bytes there.
inline uint64_t WordOf(const char* rest, uint32_t rest_bytes) {
  const uint64_t word = LoadWord(rest);
  if (rest_bytes >= kWordBytes) [[likely]] {
    return word;
  }
  const uint32_t unused_bits = 8 * (kWordBytes - rest_bytes);
  return word >> unused_bits << unused_bits;
}

// The significant word of a key of `key_bytes` >= 8 after its first `prefix_bytes`. Reads nothing
// behind the key.
inline uint64_t WordAfter(const char* key, uint32_t key_bytes, uint32_t prefix_bytes) {
  const uint32_t rest_bytes = key_bytes - prefix_bytes;
  if (rest_bytes >= kWordBytes) [[likely]] {
    return LoadWord(key + prefix_bytes);
  }
  return LoadWord(key + key_bytes - kWordBytes) << (8 * (kWordBytes - rest_bytes));
}

inline uint32_t CommonPrefix(const char* a, const char* b, uint32_t size) {
  return static_cast<uint32_t>(std::mismatch(a, a + size, b).first - a);
}

// Loads a cache line that will be needed soon; nothing waits for it.
inline void TouchLine(const char* line) { Touch(static_cast<uint8_t>(*line)); }

// How the records of a block are laid out.
enum class Encoding : uint8_t {
  kRestart,  // prefix compression with restart points: the baseline
  kSquare,   // a tree of two levels, whose fanout is the square root of the number of runs
  kTree,     // a tree of two levels with a fixed fanout
};

inline constexpr size_t kBlockBytes = 16 * 1024;
inline constexpr size_t kExtentBytes = 2 * 1024 * 1024;
inline constexpr uint32_t kBlocksPerExtent = kExtentBytes / kBlockBytes;
// The first block of an extent is its index.
inline constexpr uint32_t kDataBlocksPerExtent = kBlocksPerExtent - 1;

// The index's payload for one block of records: its number in the extent. If its records are all of
// one size, also their number and that size, else zeros. With these a lookup can guess where in the
// block a key lies before it has seen the block.
class BlockEntry {
 public:
  static constexpr uint32_t kCountShift = 31;
  static constexpr uint32_t kCountBits = 12;
  static constexpr uint32_t kBytesShift = kCountShift + kCountBits;
  static constexpr uint32_t kBytesBits = 12;
  static_assert(kBlockBytes / 9 < 1u << kCountBits);
  static_assert(kMaxKeyBytes + kMaxPayloadBytes < 1u << kBytesBits);

  BlockEntry(uint32_t block, uint32_t record_count, uint32_t record_bytes)
      : word_(block | uint64_t{record_count} << kCountShift |
              uint64_t{record_bytes} << kBytesShift) {
    ENGINE_RACE_ASSERT(record_count < 1u << kCountBits && record_bytes < 1u << kBytesBits);
  }
  explicit BlockEntry(uint64_t word) : word_(word) {}

  uint64_t word() const { return word_; }
  // These bits belong to the owner of a swip, so they stay in the word wherever the swip leads.
  uint32_t record_count() const { return (word_ >> kCountShift) & ((1u << kCountBits) - 1); }
  uint32_t record_bytes() const { return (word_ >> kBytesShift) & ((1u << kBytesBits) - 1); }

 private:
  uint64_t word_;
};

// A builder collects the records of one block; each encoding has its own.
//
// A builder keeps its memory for the next block.
class BlockBuilder {
 public:
  virtual ~BlockBuilder() = default;

  // Whether the block has room for `key` too. `key` must be above all keys added.
  virtual bool Fits(const char* key) const = 0;
  // To be called after Fits was true. May throw std::bad_alloc.
  void Add(const char* key, const char* payload) {
    ENGINE_RACE_ASSERT(count_ == 0 || std::memcmp(last_key(), key, shape_.key_bytes) < 0);
    records_.insert(records_.end(), key, key + shape_.key_bytes);
    records_.insert(records_.end(), payload, payload + shape_.payload_bytes);
    ++count_;
  }
  // Fills block[0, kBlockBytes) with the records added, at least one, and begins anew. Returns
  // the size of each record in the block, from which lookups guess where a record lies. 0: they
  // cannot.
  uint32_t Finish(char* block) {
    ENGINE_RACE_ASSERT(count_ > 0);
    std::memset(block, 0, kBlockBytes);
    const uint32_t record_bytes = Encode(block);
    records_.clear();
    count_ = 0;
    return record_bytes;
  }

  uint32_t record_count() const { return count_; }
  const char* last_key() const { return KeyAt(count_ - 1); }

 protected:
  explicit BlockBuilder(const TableShape& shape) : shape_(shape) {}
  // The encoding's part of Finish. The block is all zeros.
  virtual uint32_t Encode(char* block) const = 0;

  const TableShape& shape() const { return shape_; }
  const char* KeyAt(uint32_t rank) const {
    ENGINE_RACE_ASSERT(rank < count_);
    return records_.data() + size_t{rank} * shape_.record_bytes();
  }
  const char* PayloadAt(uint32_t rank) const { return KeyAt(rank) + shape_.key_bytes; }
  // How many bytes all the keys added and `last_key` begin with. At least one byte of the key is
  // left over.
  uint32_t PrefixWith(const char* last_key) const {
    if (count_ == 0) return 0;
    return std::min(CommonPrefix(KeyAt(0), last_key, shape_.key_bytes), shape_.key_bytes - 1);
  }

 private:
  const TableShape shape_;
  std::vector<char> records_;
  uint32_t count_ = 0;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_SHAPE_H_
