// The sizes of a table's records: all keys have one width, and all payloads have one width.
#ifndef HARNESS_DATA_TABLE_SHAPE_H_
#define HARNESS_DATA_TABLE_SHAPE_H_

#include <cstdint>

namespace engine_race::harness {

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

}  // namespace engine_race::harness

#endif  // HARNESS_DATA_TABLE_SHAPE_H_
