// Tells whether a slot of a bucket still held the record that an extent names, at one moment. See
// log/index_coverage.h.
//
// Immutable once its keys are set; thread-safe then. 40 bytes a row, and 2 KiB for each row whose
// keys are set.
#ifndef ENGINE_RACE_INDEX_HELD_SLOTS_H_
#define ENGINE_RACE_INDEX_HELD_SLOTS_H_

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "engine_race/log/slot_table.h"

namespace engine_race {

class HeldSlots {
 public:
  using Keys = std::array<uint64_t, format::kMaxRowRecords>;

  // Of a bucket with rows. May throw std::bad_alloc.
  explicit HeldSlots(const SlotTable& table) : row_records_(table.row_records()) {
    rows_.reserve(table.rows().size());
    for (const Row& row : table.rows()) rows_.push_back({row.birth, row.held});
  }

  // The keys of a row's kept records, by slot.
  void SetKeys(uint32_t row, const SlotBits& kept, const Keys& keys) {
    kept_.emplace(row, KeptRow{kept, keys});
  }

  // Whether the slot holds the record of the key that it held when the bucket had `births` births,
  // or a later one. In a row that was born since then, only if its keys were set.
  bool Holds(uint64_t slot, uint64_t births, uint64_t key) const {
    const uint64_t index = slot / row_records_;
    if (index >= rows_.size()) return false;
    const auto in_row = static_cast<uint32_t>(slot % row_records_);
    const HeldRow& row = rows_[index];
    if (!row.held.Has(in_row)) return false;
    if (row.birth <= births) return true;
    const auto kept = kept_.find(static_cast<uint32_t>(index));
    return kept != kept_.end() && kept->second.slots.Has(in_row) &&
           kept->second.keys[in_row] == key;
  }

 private:
  struct HeldRow {
    uint64_t birth;
    SlotBits held;
  };

  struct KeptRow {
    SlotBits slots;
    Keys keys;
  };

  uint32_t row_records_;
  std::vector<HeldRow> rows_;
  std::unordered_map<uint32_t, KeptRow> kept_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_HELD_SLOTS_H_
