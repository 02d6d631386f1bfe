#include "engine_race/log/logged_records.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace engine_race {

Status ReadLoggedKeys(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                      uint64_t begin, uint64_t end, format::KeyEntry* entries) {
  alignas(kIoAlignment) std::array<format::KeyEntry, format::kPageEntries> page;
  uint64_t loaded_page = ~uint64_t{0};
  std::memset(static_cast<void*>(entries), 0, (end - begin) * sizeof(*entries));
  for (uint64_t sequence = begin; sequence < end;) {
    const SlotPiece piece = table.PieceFrom(sequence, end);
    if (piece.count == 0) {
      ++sequence;
      continue;
    }
    const uint64_t in_page = piece.slot % format::kPageEntries;
    if (piece.slot / format::kPageEntries != loaded_page) {
      loaded_page = piece.slot / format::kPageEntries;
      ENGINE_RACE_RETURN_IF_ERROR(
          files.slots.ReadKeys(bucket, piece.slot - in_page, page.size(), page.data()));
    }
    const uint64_t count = std::min(piece.count, format::kPageEntries - in_page);
    std::copy_n(page.begin() + in_page, count, entries + (sequence - begin));
    sequence += count;
  }
  return Status::Ok();
}

Status ReadLoggedValues(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                        uint64_t begin, uint64_t end, char* values) {
  for (uint64_t sequence = begin; sequence < end;) {
    const SlotPiece piece = table.PieceFrom(sequence, end);
    if (piece.count != 0) {
      ENGINE_RACE_RETURN_IF_ERROR(files.slots.ReadValues(
          bucket, piece.slot, piece.count,
          values + (sequence - begin) * files.identity.geometry.slot_bytes()));
    }
    sequence += std::max<uint64_t>(piece.count, 1);
  }
  return Status::Ok();
}

}  // namespace engine_race
