#include "engine_race/log/entry_pages.h"

namespace engine_race {

Status EntryPages::Put(uint64_t slot, const format::KeyEntry& entry) {
  if (slot / format::kPageEntries != page_number_) {
    ENGINE_RACE_RETURN_IF_ERROR(Finish());
    page_number_ = ~uint64_t{0};
    const uint64_t number = slot / format::kPageEntries;
    ENGINE_RACE_RETURN_IF_ERROR(
        files_.slots.ReadKeys(bucket_, number * page_.size(), page_.size(), page_.data()));
    page_number_ = number;
  }
  format::KeyEntry& in_page = page_[slot % format::kPageEntries];
  // Without direct I/O the entry may be in the page cache alone, after a failed flush.
  changed_ = changed_ || in_page != entry || !files_.slots.LocateKeys(bucket_, slot).file->direct();
  in_page = entry;
  return Status::Ok();
}

Status EntryPages::Finish() {
  if (!changed_) return Status::Ok();
  changed_ = false;
  return files_.slots.WriteKeys(bucket_, page_number_ * page_.size(), page_.size(), page_.data());
}

}  // namespace engine_race
