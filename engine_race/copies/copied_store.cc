#include "engine_race/copies/copied_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine_race/base/round_up.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/logged_state.h"
#include "engine_race/log/staging.h"

namespace engine_race {

Options WithGeometryOf(const Geometry& geometry, const Options& options) {
  Options copied = options;
  copied.bucket_count = geometry.bucket_count;
  copied.file_count = geometry.file_count;
  copied.bucket_capacity_records = geometry.bucket_capacity_records;
  copied.value_group_bytes = geometry.value_group_bytes;
  copied.key_group_bytes = geometry.key_group_bytes;
  copied.key_range = geometry.keys();
  copied.create_if_missing = true;
  return copied;
}

Status BucketFill::Init() {
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(kPieceRecords * format::kKeyEntryBytes, false, &keys_));
  return Region::Allocate(kPieceRecords * kValueBytes, false, &values_);
}

Status BucketFill::Add(uint32_t bucket, const KeyRecord& record, const char* value) {
  if (next_slot_ >= geometry_.bucket_capacity_records) {
    return Status::Full("bucket " + std::to_string(bucket) + " has more records than the " +
                        std::to_string(geometry_.bucket_capacity_records) +
                        " that the copy's file system leaves it room for");
  }
  // In the copy no slot was used again.
  const uint64_t slot = next_slot_++;
  const uint64_t index = slot % kPieceRecords;
  const format::KeyEntry entry =
      SlotTable::EncodeAppended(EntryCodec(files_.identity.seed_id(), bucket), record, slot);
  std::memcpy(keys_.data() + index * sizeof(entry), &entry, sizeof(entry));
  has_value_[index] = value != nullptr;
  if (value != nullptr) std::memcpy(values_.data() + index * kValueBytes, value, kValueBytes);
  return index + 1 == kPieceRecords ? WritePiece(bucket, slot + 1) : Status::Ok();
}

Status BucketFill::Finish(uint32_t bucket, uint64_t record_count) {
  next_slot_ = 0;
  return record_count % kPieceRecords == 0 ? Status::Ok() : WritePiece(bucket, record_count);
}

// Writes the piece whose last slot is end - 1.
Status BucketFill::WritePiece(uint32_t bucket, uint64_t end) {
  const uint64_t begin = (end - 1) / kPieceRecords * kPieceRecords;
  const uint64_t key_bytes = (end - begin) * format::kKeyEntryBytes;
  const uint64_t page_bytes = RoundUp(key_bytes, kIoAlignment);
  std::memset(keys_.data() + key_bytes, 0, page_bytes - key_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      files_.slots.WriteKeys(bucket, begin, page_bytes / format::kKeyEntryBytes, keys_.data()));
  // Tombstones leave holes.
  for (uint64_t slot = begin; slot < end; ++slot) {
    if (!has_value_[slot - begin]) continue;
    uint64_t run_end = slot + 1;
    while (run_end < end && has_value_[run_end - begin]) ++run_end;
    ENGINE_RACE_RETURN_IF_ERROR(files_.slots.WriteValues(
        bucket, slot, run_end - slot, values_.data() + (slot - begin) * kValueBytes));
    slot = run_end;
  }
  return Status::Ok();
}

Status WriteCopiedCounts(const StoreFiles& files, const std::vector<uint64_t>& record_counts) {
  const Geometry& geometry = files.identity.geometry;
  const Staging staging(files);
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    ENGINE_RACE_RETURN_IF_ERROR(staging.WriteLine(
        bucket, LoggedState(geometry, record_counts[bucket], /*page_cache_id=*/0)));
  }
  return Status::Ok();
}

}  // namespace engine_race
