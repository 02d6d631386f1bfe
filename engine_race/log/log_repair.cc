#include "engine_race/log/log_repair.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine_race/log/row_file.h"

namespace engine_race {

Status LogRepair::Take(const TailRecord& found) {
  uint64_t slot = 0;
  if (!table_.SlotOf(found.sequence, &slot)) {
    ENGINE_RACE_RETURN_IF_ERROR(GiveRow(found.sequence));
    slot = table_.SlotOf(found.sequence);
  }
  const SlotFiles& slots = files_.slots;
  // What was read without direct I/O may be in the page cache alone, after a failed flush.
  const bool keeps_value = found.value_in_log && slots.LocateValues(bucket_, slot).file->direct();
  if (found.value != nullptr && !keeps_value) {
    std::memcpy(value_.data(), found.value, files_.identity.geometry.value_bytes());
    ENGINE_RACE_RETURN_IF_ERROR(slots.WriteValues(bucket_, slot, 1, value_.data()));
  }
  // Entries before the tail stay as they are.
  const bool keeps_key = found.key_in_log && slots.LocateKeys(bucket_, slot).file->direct();
  return keeps_key ? Status::Ok() : pages_.Put(slot, found.entry);
}

// Gives a run that lost its row a free row with a place, else a new row, else gaps of another row
// or a free row without a place. A row that the head reaches has images once it has a place.
Status LogRepair::GiveRow(uint64_t sequence) {
  // The run ends before the next one that still has its row.
  const auto next = table_.runs().upper_bound(sequence);
  const uint64_t end = next == table_.runs().end() ? ~uint64_t{0} : next->first;
  const auto wanted =
      static_cast<uint32_t>(std::min<uint64_t>(table_.row_records(), end - sequence));
  const auto is_free = [&](uint32_t index) { return table_.rows()[index].free(); };
  const auto has_place = [&](uint32_t index) { return files_.slots.HasPlace(bucket_, index); };
  uint32_t index = 0;
  while (index < table_.rows().size() && !(is_free(index) && has_place(index))) ++index;
  if (index == files_.identity.geometry.rows_per_bucket() && !FindGaps(wanted, &index)) {
    return Status::Full("bucket " + std::to_string(bucket_) + " has no row for its last records");
  }
  const bool is_new = index == table_.rows().size();
  if (!is_new && !has_place(index)) {
    ENGINE_RACE_RETURN_IF_ERROR(PlaceRow(files_, bucket_, index, flush_rows_));
  }
  Row row = is_new || is_free(index) ? Row() : table_.rows()[index];
  row.kind = format::RowKind::kUsed;
  row.number = sequence;
  row.path = GapsOf(row).FirstOf(wanted);
  row.held = row.held | row.path;
  row.birth = table_.births() + 1;
  table_.SetRow(index, row);
  return Status::Ok();
}

// *index: the row with the fewest gaps that are enough, or with the most.
bool LogRepair::FindGaps(uint32_t wanted, uint32_t* index) const {
  uint32_t most = 0;
  for (uint32_t i = 0; i < table_.rows().size(); ++i) {
    const Row& row = table_.rows()[i];
    // As Bucket::CountGaps.
    if (row.is_moving() || row.RunReaches(synced_watermark_)) continue;
    const uint32_t count = GapsOf(row).count();
    if (most >= wanted ? count < wanted || count >= most : count <= most) continue;
    most = count;
    *index = i;
  }
  return most != 0;
}

}  // namespace engine_race
