#include "engine_race/copies/copied_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/round_up.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {
namespace {

// Values of such a piece begin and end with a block, unless it ends a segment.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// The option that makes groups of values as large as these.
uint32_t GroupOption(const Geometry& geometry) {
  uint32_t bytes = kMinGroupBytes;
  while (bytes < kMaxValueGroupBytes &&
         geometry.layout.GroupRecords(bytes, kMaxGroupRecords) < geometry.values_per_group()) {
    bytes *= 2;
  }
  return bytes;
}

}  // namespace

Options WithGeometryOf(const Geometry& geometry, const Options& options) {
  Options copied = options;
  copied.value_bytes = geometry.value_bytes();
  copied.bucket_count = geometry.bucket_count;
  copied.file_count = geometry.file_count;
  copied.bucket_capacity_records = geometry.bucket_capacity_records;
  copied.value_group_bytes = GroupOption(geometry);
  copied.key_group_bytes = geometry.key_group_bytes;
  copied.key_range = geometry.keys();
  copied.create_if_missing = true;
  return copied;
}

BucketFill::BucketFill(const StoreFiles& files, std::vector<uint64_t>* record_counts)
    : files_(files),
      geometry_(files.identity.geometry),
      record_counts_(*record_counts),
      piece_values_(std::bit_floor(geometry_.RecordsIn(kPieceBytes))),
      piece_keys_(std::max(piece_values_, format::kPageEntries)) {}

Status BucketFill::Init() {
  has_value_.resize(piece_values_);
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(piece_keys_ * format::kKeyEntryBytes, false, &keys_));
  // Zeros stay behind each value in its slot.
  return Region::Allocate(geometry_.layout.BlockBytesFor(piece_values_), false, &values_);
}

Status BucketFill::Take(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) {
  if (next_slot_ >= geometry_.bucket_capacity_records) {
    return Status::Full("bucket " + std::to_string(bucket) + " has more records than the " +
                        std::to_string(geometry_.bucket_capacity_records) +
                        " that the copy's file system leaves it room for");
  }
  // In the copy no slot was used again.
  const uint64_t slot = next_slot_++;
  const uint64_t index = slot % piece_values_;
  KeyRecord record;
  record.key = key;
  record.value_hash = value_hash;
  record.tombstone = value == nullptr;
  const format::KeyEntry entry =
      SlotTable::EncodeAppended(EntryCodec(files_.identity.seed_id(), bucket), record, slot);
  std::memcpy(keys_.data() + slot % piece_keys_ * sizeof(entry), &entry, sizeof(entry));
  has_value_[index] = value != nullptr;
  if (value != nullptr) {
    std::memcpy(values_.data() + index * geometry_.slot_bytes(), value, geometry_.value_bytes());
  }
  if ((slot + 1) % piece_keys_ == 0) ENGINE_RACE_RETURN_IF_ERROR(WriteKeys(bucket, slot + 1));
  return index + 1 == piece_values_ ? WriteValues(bucket, slot + 1) : Status::Ok();
}

Status BucketFill::Finish(uint32_t bucket) {
  const uint64_t end = std::exchange(next_slot_, 0);
  record_counts_[bucket] = end;
  if (end % piece_keys_ != 0) ENGINE_RACE_RETURN_IF_ERROR(WriteKeys(bucket, end));
  return end % piece_values_ == 0 ? Status::Ok() : WriteValues(bucket, end);
}

// Writes the piece whose last slot is end - 1.
Status BucketFill::WriteKeys(uint32_t bucket, uint64_t end) {
  const uint64_t begin = (end - 1) / piece_keys_ * piece_keys_;
  const uint64_t key_bytes = (end - begin) * format::kKeyEntryBytes;
  const uint64_t page_bytes = RoundUp(key_bytes, kIoAlignment);
  std::memset(keys_.data() + key_bytes, 0, page_bytes - key_bytes);
  return files_.slots.WriteKeys(bucket, begin, page_bytes / format::kKeyEntryBytes, keys_.data());
}

// As WriteKeys.
Status BucketFill::WriteValues(uint32_t bucket, uint64_t end) {
  const uint64_t begin = (end - 1) / piece_values_ * piece_values_;
  // Tombstones leave holes.
  for (uint64_t slot = begin; slot < end; ++slot) {
    if (!has_value_[slot - begin]) continue;
    uint64_t run_end = slot + 1;
    while (run_end < end && has_value_[run_end - begin]) ++run_end;
    ENGINE_RACE_RETURN_IF_ERROR(files_.slots.WriteValues(
        bucket, slot, run_end - slot, values_.data() + (slot - begin) * geometry_.slot_bytes()));
    slot = run_end;
  }
  return Status::Ok();
}

}  // namespace engine_race
