#include "engine_race/copies/slots_in_order.h"

#include <algorithm>

#include "engine_race/base/memory.h"
#include "engine_race/log/format.h"

namespace engine_race {

Status SlotsInOrder(const StoreFiles& files, uint32_t bucket, const SlotTable& table,
                    uint64_t record_count, std::vector<uint64_t>* slots) {
  struct Found {
    uint64_t sequence;
    uint64_t slot;
  };
  std::vector<Found> all;
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(page.data());
  for (uint64_t first = 0; first < table.SlotEnd(0); first += format::kPageEntries) {
    const bool is_read =
        files.slots.ReadKeys(bucket, first, format::kPageEntries, page.data()).ok();
    for (uint64_t i = 0; i < format::kPageEntries; ++i) {
      if (!table.Holds(first + i, record_count)) continue;
      uint64_t sequence = 0;
      if (!table.SequenceOf(first + i, &sequence)) {
        sequence = is_read ? entries[i].sequence() : 0;
      }
      all.push_back({sequence, first + i});
    }
  }
  std::sort(all.begin(), all.end(), [&](const Found& a, const Found& b) {
    return a.sequence != b.sequence ? a.sequence < b.sequence : table.IsLaterCopy(b.slot, a.slot);
  });
  for (const Found& each : all) slots->push_back(each.slot);
  return Status::Ok();
}

}  // namespace engine_race
