// The sizes of L1's tables, and the header that every block begins with.
//
// A table has keys of one width and payloads of one width. Its records lie in blocks of 16 KiB, in
// order of key as strings of bytes; 127 blocks of records and the block that indexes them, which
// has the same format, make an extent of 2 MiB. Values.
#ifndef ENGINE_RACE_L1_TABLE_SHAPE_H_
#define ENGINE_RACE_L1_TABLE_SHAPE_H_

#include <cstddef>
#include <cstdint>

namespace engine_race::l1 {

inline constexpr size_t kBlockBytes = 16 * 1024;
inline constexpr size_t kExtentBytes = 2 * 1024 * 1024;
inline constexpr uint32_t kBlocksPerExtent = kExtentBytes / kBlockBytes;
// The first block of an extent is its index.
inline constexpr uint32_t kDataBlocksPerExtent = kBlocksPerExtent - 1;

inline constexpr uint32_t kMaxKeyBytes = 32;
inline constexpr uint32_t kMinPayloadBytes = 8;
inline constexpr uint32_t kMaxPayloadBytes = 256;

struct TableShape {
  uint32_t key_bytes = 16;     // 8, 16 or 32
  uint32_t payload_bytes = 8;  // 8 to 256

  uint32_t record_bytes() const { return key_bytes + payload_bytes; }
  bool valid() const {
    return (key_bytes == 8 || key_bytes == 16 || key_bytes == 32) &&
           payload_bytes >= kMinPayloadBytes && payload_bytes <= kMaxPayloadBytes;
  }
};

// How the records of a block are laid out.
enum class Encoding : uint8_t {
  kRestart = 1,  // prefix compression with restart points: the baseline
  kSquare = 2,   // a tree of two levels, as wide as the square root of its run heads
  kTree = 3,     // a tree of 16 times 8 significant words
};

// Ends every block: Hash64 of all that is before it, seeded with where the block belongs.
inline constexpr size_t kBlockSumBytes = 8;
inline constexpr size_t kBlockBodyBytes = kBlockBytes - kBlockSumBytes;

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_TABLE_SHAPE_H_
