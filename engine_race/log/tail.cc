#include "engine_race/log/tail.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/log/lane.h"

namespace engine_race {

Status TailReader::Init() {
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kMinGroupBytes, false, &logged_keys_));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kMinGroupBytes, false, &staged_keys_));
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(uint64_t{kPageEntries} * kValueBytes, false, &logged_values_));
  return Region::Allocate(kValueBytes, false, &other_value_);
}

Status TailReader::Walk(uint32_t bucket, const BucketState& state, const TailFn& visit,
                        uint64_t* cut) {
  ENGINE_RACE_ASSERT(!state.damaged);
  bucket_ = bucket;
  state_ = state;
  const uint64_t capacity = files_.identity.geometry.bucket_capacity_records;
  *cut = state.synced_watermark;
  while (*cut < capacity) {
    const uint64_t page_slot = *cut / kPageEntries * kPageEntries;
    const uint64_t page_end = std::min(page_slot + kPageEntries, capacity);
    ENGINE_RACE_RETURN_IF_ERROR(LoadKeys(page_slot));
    ENGINE_RACE_RETURN_IF_ERROR(WalkPage(*cut, page_end, visit, cut));
    if (*cut < page_end) break;
  }
  ENGINE_RACE_ASSERT(*cut >= state.synced_watermark && *cut <= capacity);
  return Status::Ok();
}

Status TailReader::LoadKeys(uint64_t page_slot) {
  const Geometry& geometry = files_.identity.geometry;
  ENGINE_RACE_RETURN_IF_ERROR(files_.KeyFile(bucket_).Read(logged_keys_.data(), kMinGroupBytes,
                                                           geometry.KeyOffset(bucket_, page_slot)));
  const uint32_t place = PlaceInWord(state_.key_places, page_slot / geometry.keys_per_group());
  if (place >= format::kKeyPlaces) {
    std::memset(staged_keys_.data(), 0, kMinGroupBytes);
    return Status::Ok();
  }
  return staging_.ReadKeys(bucket_, place, page_slot % geometry.keys_per_group(), kPageEntries,
                           reinterpret_cast<format::KeyEntry*>(staged_keys_.data()));
}

bool TailReader::FindEntry(uint64_t slot, TailRecord* found) const {
  const EntryCodec codec(files_.identity.seed_id(), bucket_);
  const auto verifies = [&](const format::KeyEntry& entry) {
    // Slots are given out in order and once each: the number is the slot.
    return codec.Decode(entry, static_cast<uint32_t>(slot), slot + 1, &found->record) &&
           found->record.sequence == slot &&
           files_.identity.geometry.IsIn(bucket_, found->record.key);
  };
  const auto entry_of = [slot](const Region& page) {
    return reinterpret_cast<const format::KeyEntry*>(page.data())[slot % kPageEntries];
  };
  const JournalReplay::Record* const journaled = journal_.Find(bucket_, slot);
  // The journal first. A record that was staged and never counted may have left its entry elsewhere
  // before the slot was given to the record in the journal.
  const std::array<format::KeyEntry, 3> candidates = {
      journaled != nullptr ? journaled->descriptor.entry : format::KeyEntry(),
      entry_of(logged_keys_), entry_of(staged_keys_)};
  for (const format::KeyEntry& candidate : candidates) {
    if (!verifies(candidate)) continue;
    found->entry = candidate;
    const format::KeyEntry logged = entry_of(logged_keys_);
    found->key_in_log = logged.key == candidate.key && logged.check == candidate.check;
    return true;
  }
  return false;
}

// Leaves found->value null when no copy verifies.
Status TailReader::FindValue(uint64_t slot, const char* logged, TailRecord* found) {
  const Geometry& geometry = files_.identity.geometry;
  const auto verifies = [found](const char* value) {
    return ValueMatches(value, found->record.value_checksum);
  };
  found->value = nullptr;
  found->value_in_log = verifies(logged);
  if (found->value_in_log) {
    found->value = logged;
    return Status::Ok();
  }
  const uint32_t place = PlaceInWord(state_.value_places, slot / geometry.values_per_group());
  if (place < format::kValuePlaces) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.ReadValues(
        bucket_, place, slot % geometry.values_per_group(), 1, other_value_.data()));
    if (verifies(other_value_.data())) {
      found->value = other_value_.data();
      return Status::Ok();
    }
  }
  if (const JournalReplay::Record* const journaled = journal_.Find(bucket_, slot)) {
    ENGINE_RACE_RETURN_IF_ERROR(journal_.ReadValue(*journaled, other_value_.data()));
    if (verifies(other_value_.data())) found->value = other_value_.data();
  }
  return Status::Ok();
}

// Slots [begin, page_end), which lie in the page that LoadKeys has loaded.
Status TailReader::WalkPage(uint64_t begin, uint64_t page_end, const TailFn& visit, uint64_t* cut) {
  ENGINE_RACE_ASSERT(begin / kPageEntries == (page_end - 1) / kPageEntries);
  TailRecord found;
  uint64_t keys_end = begin;
  while (keys_end < page_end && FindEntry(keys_end, &found)) ++keys_end;
  if (keys_end == begin) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(
      files_.values.Read(bucket_, begin, keys_end - begin, logged_values_.data()));
  for (uint64_t slot = begin; slot < keys_end; ++slot) {
    // It was there before.
    static_cast<void>(FindEntry(slot, &found));
    if (found.record.tombstone) {
      found.value = nullptr;
      found.value_in_log = true;
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(
          FindValue(slot, logged_values_.data() + (slot - begin) * kValueBytes, &found));
      if (found.value == nullptr) return Status::Ok();
    }
    ENGINE_RACE_RETURN_IF_ERROR(visit(found));
    *cut = slot + 1;
  }
  return Status::Ok();
}

}  // namespace engine_race
