#include "engine_race/log/log_reader.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"

namespace engine_race {

Status LogReader::ReadValue(uint32_t number, uint64_t slot, char* buffer) const {
  Bucket& bucket = context_.buckets[number];
  if (slot >= bucket.LoggedValueWatermark()) {
    std::unique_lock<std::mutex> lock(bucket.mutex);
    if (slot >= bucket.values.watermark()) {
      ENGINE_RACE_ASSERT(slot < bucket.record_count);
      const uint32_t place = bucket.values.PlaceOf(slot);
      const uint32_t index = bucket.values.IndexOf(slot);
      bucket.values.Pin(place);
      lock.unlock();
      Status status =
          Guarded([&] { return context_.staging.ReadValues(number, place, index, 1, buffer); });
      lock.lock();
      bucket.values.Unpin(place);
      bucket.WakeOneIfRoom();
      return status;
    }
  }
  const ValueLocation location = context_.files.values.Locate(number, slot);
  if (location.offset == UnitMap::kNowhere) [[unlikely]] {
    return LostValue(number, slot);
  }
  return location.file->Read(buffer, kValueBytes, location.offset);
}

Status LogReader::CutBucket(uint32_t number, uint64_t first_slot, AppendListener* listener,
                            BucketCut* cut) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  ENGINE_RACE_ASSERT(bucket.keys.watermark() <= bucket.record_count);
  if (first_slot > bucket.record_count) return NoSuchSlot(number, first_slot);
  cut->first_slot = first_slot;
  cut->record_count = bucket.record_count;
  cut->logged_key_watermark = bucket.keys.watermark();
  cut->sequence_bound = bucket.record_count;
  cut->staged_keys.resize(bucket.record_count - cut->first_staged());
  const uint64_t group_records = bucket.keys.group_records();
  for (uint64_t slot = cut->first_staged(); slot < bucket.record_count;) {
    const uint64_t index = bucket.keys.IndexOf(slot);
    const uint64_t count = std::min(group_records - index, bucket.record_count - slot);
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.ReadKeys(number, bucket.keys.PlaceOf(slot), index, count,
                                  cut->staged_keys.data() + (slot - cut->first_staged())));
    slot += count;
  }
  for (uint64_t slot = cut->first_staged(); slot < bucket.synced_watermark; ++slot) {
    ENGINE_RACE_RETURN_IF_ERROR(
        MendStagedKey(number, slot, &cut->staged_keys[slot - cut->first_staged()]));
  }
  bucket.listener = listener;
  return Status::Ok();
}

void LogReader::DetachListener(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  bucket.listener = nullptr;
}

Status LogReader::ReadKeyEntry(uint32_t number, uint64_t slot, format::KeyEntry* entry) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (slot >= bucket.record_count) return NoSuchSlot(number, slot);
    if (slot >= bucket.keys.watermark()) {
      ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReadKeys(number, bucket.keys.PlaceOf(slot),
                                                            bucket.keys.IndexOf(slot), 1, entry));
      return MendStagedKey(number, slot, entry);
    }
  }
  // The watermark never falls, and nothing below it is written again.
  return ReadLoggedKey(number, slot, entry);
}

Status LogReader::ReadLoggedKey(uint32_t number, uint64_t slot, format::KeyEntry* entry) const {
  const uint64_t offset = context_.geometry().KeyOffset(number, slot);
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page));
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.KeyFile(number).Read(
      page.data(), kIoAlignment, offset / kIoAlignment * kIoAlignment));
  std::memcpy(entry, page.data() + offset % kIoAlignment, sizeof(*entry));
  return Status::Ok();
}

// Until a bucket takes its first record in this opening, a lost page cache may have left anything
// in staging. So a synced entry that does not verify there is taken from the key log. Under the
// bucket's lock.
Status LogReader::MendStagedKey(uint32_t number, uint64_t slot, format::KeyEntry* entry) const {
  const Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(bucket.synced_watermark <= bucket.record_count);
  if (bucket.staging_verified || slot >= bucket.synced_watermark) return Status::Ok();
  KeyRecord record;
  if (context_.codec(number).Decode(*entry, static_cast<uint32_t>(slot), slot + 1, &record)) {
    return Status::Ok();
  }
  return ReadLoggedKey(number, slot, entry);
}

Status LogReader::NoSuchSlot(uint32_t number, uint64_t slot) const {
  return Status::InvalidArgument("bucket " + std::to_string(number) + " has no slot " +
                                 std::to_string(slot) + " yet");
}

void LogReader::WithBucketLocked(uint32_t number, FunctionRef<void()> function) const {
  Bucket& bucket = context_.buckets[number];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  bucket.AwaitRelease(&lock);
  function();
}

std::string LogReader::NameOfValue(uint32_t bucket, uint64_t slot) const {
  return context_.files.values.Locate(bucket, slot).file->name() + ": bucket " +
         std::to_string(bucket) + ", slot " + std::to_string(slot);
}

Status LogReader::CorruptValue(uint32_t bucket, uint64_t slot) const {
  return Status::Corruption(NameOfValue(bucket, slot) + ": the value does not match its checksum");
}

Status LogReader::LostValue(uint32_t bucket, uint64_t slot) const {
  return Status::Corruption(NameOfValue(bucket, slot) + ": its place on the device is lost");
}

}  // namespace engine_race
