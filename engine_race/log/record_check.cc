#include "engine_race/log/record_check.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/logged_records.h"

namespace engine_race {

Status RecordCheck::Init() {
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &keys_));
  return Region::Allocate(files_.identity.geometry.slot_bytes(), /*huge_pages=*/false, &value_);
}

Status RecordCheck::ReadersFind(uint64_t begin, uint64_t end, bool* good) {
  return Check(begin, end, begin, good);
}

Status RecordCheck::StagingVerifies(bool* good) {
  return Check(std::min(state_.LoggedKeyCount(), state_.LoggedValueCount()), state_.record_count,
               state_.LoggedValueCount(), good);
}

// Values of records below first_value are not looked at.
Status RecordCheck::Check(uint64_t begin, uint64_t end, uint64_t first_value, bool* good) {
  *good = false;
  ENGINE_RACE_ASSERT(!state_.damaged && end <= state_.record_count);
  const EntryCodec codec(files_.identity.seed_id(), bucket_);
  for (uint64_t sequence = begin; sequence < end; ++sequence) {
    if (!HasPlaces(sequence)) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(LoadEntry(sequence));
    const auto* const entries = reinterpret_cast<const format::KeyEntry*>(keys_.data());
    KeyRecord record;
    if (!SlotTable::DecodeAppended(codec, entries[sequence % format::kPageEntries], sequence,
                                   &record) ||
        !files_.identity.geometry.IsIn(bucket_, record.key)) {
      return Status::Ok();
    }
    if (record.tombstone || sequence < first_value) continue;
    ENGINE_RACE_RETURN_IF_ERROR(LoadValue(sequence));
    if (!IsValueOf(record, value_.data(), files_.identity.geometry.value_bytes()))
      return Status::Ok();
  }
  *good = true;
  return Status::Ok();
}

// Whether the record has a slot, and the places words name a place for what is not in the logs.
bool RecordCheck::HasPlaces(uint64_t sequence) const {
  uint64_t slot = 0;
  return state_.table.SlotOf(sequence, &slot) &&
         (sequence < state_.LoggedKeyCount() ||
          staging_.HasPlace(LaneKind::kKeys, state_.key_places, sequence)) &&
         (sequence < state_.LoggedValueCount() ||
          staging_.HasPlace(LaneKind::kValues, state_.value_places, sequence));
}

Status RecordCheck::LoadEntry(uint64_t sequence) {
  const uint64_t page = sequence / format::kPageEntries;
  const bool in_log = sequence < state_.LoggedKeyCount();
  if (loaded_ && loaded_page_ == page && loaded_from_log_ == in_log) return Status::Ok();
  const uint64_t first = page * format::kPageEntries;
  if (in_log) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadLoggedKeys(files_, bucket_, state_.table, first,
                                               first + format::kPageEntries,
                                               reinterpret_cast<format::KeyEntry*>(keys_.data())));
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.Read(LaneKind::kKeys, bucket_, state_.key_places, first,
                                              format::kPageEntries, keys_.data()));
  }
  loaded_ = true;
  loaded_page_ = page;
  loaded_from_log_ = in_log;
  return Status::Ok();
}

Status RecordCheck::LoadValue(uint64_t sequence) {
  if (sequence < state_.LoggedValueCount()) {
    return files_.slots.ReadValues(bucket_, state_.table.SlotOf(sequence), 1, value_.data());
  }
  return staging_.Read(LaneKind::kValues, bucket_, state_.value_places, sequence, 1, value_.data());
}

Status VerifyStaging(const StoreFiles& files, const Staging& staging, uint32_t bucket_number,
                     const Bucket& bucket, bool* verified) {
  BucketState state;
  state.record_count = bucket.record_count;
  state.logged_value_watermark = bucket.values.watermark();
  state.logged_key_watermark = bucket.keys.watermark();
  state.value_places = bucket.values.places_word();
  state.key_places = bucket.keys.places_word();
  state.synced_watermark = bucket.synced_watermark;
  state.table = bucket.table;
  RecordCheck check(files, staging, bucket_number, state);
  ENGINE_RACE_RETURN_IF_ERROR(check.Init());
  return check.StagingVerifies(verified);
}

}  // namespace engine_race
