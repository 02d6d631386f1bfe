// The blocks of a table, their encodings, and the entries that index them.
//
// The records of a table lie in blocks of 16 KiB, ordered by key as strings of bytes. An extent of
// 2 MiB is 127 blocks of records and the block that indexes them, which has the same format.
//
// Values.
#ifndef HARNESS_LAB_BLOCK_SHAPE_H_
#define HARNESS_LAB_BLOCK_SHAPE_H_

#include <cstddef>
#include <cstdint>

#include "harness/lab/engine_names.h"

namespace engine_race::lab {

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
  static constexpr uint32_t kCountShift = 26;
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

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_SHAPE_H_
