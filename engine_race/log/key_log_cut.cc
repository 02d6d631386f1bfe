#include "engine_race/log/key_log_cut.h"

#include <algorithm>
#include <array>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/format.h"

namespace engine_race {
namespace {

using EntryPage = std::array<format::KeyEntry, format::kPageEntries>;

// Zeros the entries of slots [begin, end) for which `holds` is false. `begin` is that of a page.
template <typename Holds>
Status ZeroSlots(const SlotFiles& slots, uint32_t bucket, uint64_t begin, uint64_t end,
                 const Holds& holds) {
  alignas(kIoAlignment) EntryPage page;
  static constexpr format::KeyEntry kNoEntry{};
  for (uint64_t first = begin; first < end; first += page.size()) {
    std::array<bool, format::kPageEntries> empty;
    for (uint64_t i = 0; i < page.size(); ++i) empty[i] = !holds(first + i);
    if (std::find(empty.begin(), empty.end(), true) == empty.end()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(slots.ReadKeys(bucket, first, page.size(), page.data()));
    bool changed = false;
    for (uint64_t i = 0; i < page.size(); ++i) {
      if (!empty[i] || page[i] == kNoEntry) continue;
      page[i] = kNoEntry;
      changed = true;
    }
    // Without direct I/O zeros may be in the page cache alone, after a failed flush.
    const SlotLocation at = slots.LocateKeys(bucket, first);
    const bool may_be_older = !at.file->direct() && at.found() &&
                              at.file->MayHoldData(at.offset, at.offset + sizeof(page));
    if (!changed && !may_be_older) continue;
    ENGINE_RACE_RETURN_IF_ERROR(slots.WriteKeys(bucket, first, page.size(), page.data()));
  }
  return Status::Ok();
}

}  // namespace

Status CutKeyLog(const StoreFiles& files, uint32_t bucket, const SlotTable& table, uint64_t end) {
  const SlotFiles& slots = files.slots;
  const uint64_t kept_end =
      RoundUp(table.has_rows() ? table.SlotEnd(0) : end, format::kPageEntries);
  // Behind the last page that is kept, the file system may do it at once.
  bool supported = true;
  if (kept_end < slots.SlotEnd(bucket)) {
    ENGINE_RACE_RETURN_IF_ERROR(
        slots.PunchKeys(bucket, kept_end, slots.SlotEnd(bucket) - kept_end, &supported));
  }
  const uint64_t looked_end = supported ? kept_end : slots.SlotEnd(bucket);
  // Without rows all slots below the end hold records.
  const uint64_t begin = table.has_rows() ? 0 : end / format::kPageEntries * format::kPageEntries;
  return ZeroSlots(slots, bucket, begin, looked_end,
                   [&](uint64_t slot) { return table.Holds(slot, end); });
}

}  // namespace engine_race
