#include "engine_race/log/tail.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/logged_records.h"

namespace engine_race {

Status TailReader::Init() {
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &logged_keys_));
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &staged_keys_));
  const uint64_t slot_bytes = files_.identity.geometry.slot_bytes();
  piece_records_ = files_.identity.geometry.RecordsIn(kPieceBytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(piece_records_ * slot_bytes, false, &logged_values_));
  return Region::Allocate(slot_bytes, false, &other_value_);
}

Status TailReader::Walk(uint32_t bucket, const BucketState& state, const TailFn& visit,
                        uint64_t* cut) {
  ENGINE_RACE_ASSERT(!state.damaged);
  bucket_ = bucket;
  state_ = state;
  // With rows, a bucket has no last slot. It ends with the records that can be found.
  const uint64_t bound = state.table.has_rows() ? uint64_t{1} << format::kSequenceBits
                                                : files_.identity.geometry.bucket_capacity_records;
  *cut = state.synced_watermark;
  while (*cut < bound) {
    const uint64_t page_begin = *cut / format::kPageEntries * format::kPageEntries;
    const uint64_t page_end = std::min(page_begin + format::kPageEntries, bound);
    ENGINE_RACE_RETURN_IF_ERROR(LoadKeys(page_begin));
    ENGINE_RACE_RETURN_IF_ERROR(WalkPage(*cut, page_end, visit, cut));
    if (*cut < page_end) break;
  }
  ENGINE_RACE_ASSERT(*cut >= state.synced_watermark && *cut <= bound);
  return Status::Ok();
}

Status TailReader::LoadKeys(uint64_t first_in_page) {
  ENGINE_RACE_RETURN_IF_ERROR(ReadLoggedKeys(
      files_, bucket_, state_.table, first_in_page, first_in_page + format::kPageEntries,
      reinterpret_cast<format::KeyEntry*>(logged_keys_.data())));
  if (!staging_.HasPlace(LaneKind::kKeys, state_.key_places, first_in_page)) {
    std::memset(staged_keys_.data(), 0, staged_keys_.size());
    return Status::Ok();
  }
  return staging_.Read(LaneKind::kKeys, bucket_, state_.key_places, first_in_page,
                       format::kPageEntries, staged_keys_.data());
}

bool TailReader::FindEntry(uint64_t sequence, TailRecord* found) const {
  const EntryCodec codec(files_.identity.seed_id(), bucket_);
  const auto verifies = [&](const format::KeyEntry& entry) {
    return SlotTable::DecodeAppended(codec, entry, sequence, &found->record) &&
           !found->record.in_large_batch &&
           files_.identity.geometry.IsIn(bucket_, found->record.key);
  };
  const auto entry_of = [sequence](const Region& page) {
    return reinterpret_cast<const format::KeyEntry*>(page.data())[sequence % format::kPageEntries];
  };
  const JournalReplay::Record* const journaled = journal_.Find(bucket_, sequence);
  // A staged entry that nothing counts may be of a batch that never was committed.
  const bool staged_counts =
      sequence < state_.record_count || sequence < journal_.EndSequence(bucket_);
  // The journal first. A record that was staged and never counted may have left its entry elsewhere
  // before its number was given to the record in the journal.
  const std::array<format::KeyEntry, 3> candidates = {
      journaled != nullptr ? journaled->descriptor.entry : format::KeyEntry(),
      entry_of(logged_keys_), staged_counts ? entry_of(staged_keys_) : format::KeyEntry()};
  for (const format::KeyEntry& candidate : candidates) {
    if (!verifies(candidate)) continue;
    found->sequence = sequence;
    found->entry = candidate;
    found->key_in_log = entry_of(logged_keys_) == candidate;
    return true;
  }
  return false;
}

// Leaves found->value null when no copy verifies.
Status TailReader::FindValue(const char* logged, TailRecord* found) {
  const uint64_t sequence = found->sequence;
  const auto verifies = [&](const char* value) {
    return IsValueOf(found->record, value, files_.identity.geometry.value_bytes());
  };
  found->value = nullptr;
  found->value_in_log = logged != nullptr && verifies(logged);
  if (found->value_in_log) {
    found->value = logged;
    return Status::Ok();
  }
  if (staging_.HasPlace(LaneKind::kValues, state_.value_places, sequence)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.Read(LaneKind::kValues, bucket_, state_.value_places,
                                              sequence, 1, other_value_.data()));
    if (verifies(other_value_.data())) {
      found->value = other_value_.data();
      return Status::Ok();
    }
  }
  if (const JournalReplay::Record* const journaled = journal_.Find(bucket_, sequence)) {
    ENGINE_RACE_RETURN_IF_ERROR(journal_.ReadValue(*journaled, other_value_.data()));
    if (verifies(other_value_.data())) found->value = other_value_.data();
  }
  return Status::Ok();
}

// Records [begin, page_end) of the page that LoadKeys has loaded.
Status TailReader::WalkPage(uint64_t begin, uint64_t page_end, const TailFn& visit, uint64_t* cut) {
  ENGINE_RACE_ASSERT(begin / format::kPageEntries == (page_end - 1) / format::kPageEntries);
  const uint64_t slot_bytes = files_.identity.geometry.slot_bytes();
  TailRecord found;
  uint64_t keys_end = begin;
  while (keys_end < page_end && FindEntry(keys_end, &found)) ++keys_end;
  if (keys_end == begin) return Status::Ok();
  for (uint64_t sequence = begin; sequence < keys_end; ++sequence) {
    const uint64_t in_piece = (sequence - begin) % piece_records_;
    if (in_piece == 0) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadLoggedValues(files_, bucket_, state_.table, sequence,
                                                   std::min(sequence + piece_records_, keys_end),
                                                   logged_values_.data()));
    }
    // It was there before.
    static_cast<void>(FindEntry(sequence, &found));
    if (found.record.tombstone) {
      found.value = nullptr;
      found.value_in_log = true;
    } else {
      uint64_t slot = 0;
      const char* const logged = state_.table.SlotOf(sequence, &slot)
                                     ? logged_values_.data() + in_piece * slot_bytes
                                     : nullptr;
      ENGINE_RACE_RETURN_IF_ERROR(FindValue(logged, &found));
      if (found.value == nullptr) return Status::Ok();
    }
    ENGINE_RACE_RETURN_IF_ERROR(visit(found));
    *cut = sequence + 1;
  }
  return Status::Ok();
}

}  // namespace engine_race
