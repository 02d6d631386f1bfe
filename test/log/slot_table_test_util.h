// Tables of slots of small rows, and rows to put into them.
#ifndef TEST_LOG_SLOT_TABLE_TEST_UTIL_H_
#define TEST_LOG_SLOT_TABLE_TEST_UTIL_H_

#include <cstdint>
#include <vector>

#include "engine_race/log/slot_table.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {

inline constexpr uint64_t kTableRow = 256;

inline SlotTable MakeTable() { return SlotTable(GeometryFrom(TinyLogOptions())); }
inline const SlotBits kAllSlots = SlotBits::First(kTableRow);
// A run of whole rows, that with that number.
inline Row RunRow(uint64_t number, const SlotBits& path = kAllSlots) {
  return {.kind = format::RowKind::kUsed, .number = number * kTableRow, .path = path, .held = path};
}
inline Row MovedRow(uint64_t horizon, uint32_t record_count,
                    format::RowKind kind = format::RowKind::kUsed) {
  return {.kind = kind, .held = SlotBits::First(record_count), .horizon = horizon};
}
inline SlotBits SlotsOf(const std::vector<uint32_t>& slots) {
  SlotBits bits;
  for (const uint32_t slot : slots) bits.Add(slot);
  return bits;
}

inline constexpr uint64_t kSealMask = (uint64_t{1} << format::kSealBits) - 1;
inline Row Sealed(Row row, uint64_t seal) {
  row.seal = seal;
  return row;
}

}  // namespace engine_race::test

#endif  // TEST_LOG_SLOT_TABLE_TEST_UTIL_H_
