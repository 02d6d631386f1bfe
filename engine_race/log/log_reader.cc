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

Status LogReader::CutBucket(uint32_t number, AppendListener* listener, BucketCut* cut) const {
  Bucket& bucket = context_.buckets[number];
  if (bucket.damaged) return context_.DamagedCounts(number);
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  ENGINE_RACE_ASSERT(bucket.keys.watermark() <= bucket.record_count);
  cut->record_count = bucket.record_count;
  cut->logged_key_watermark = bucket.keys.watermark();
  cut->sequence_bound = bucket.record_count;
  cut->staged_keys.resize(bucket.record_count - bucket.keys.watermark());
  for (uint64_t done = 0; done < cut->staged_keys.size();) {
    const uint64_t count =
        std::min<uint64_t>(bucket.keys.group_records(), cut->staged_keys.size() - done);
    const uint32_t place = bucket.keys.PlaceOf(bucket.keys.watermark() + done);
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.ReadKeys(number, place, 0, count, cut->staged_keys.data() + done));
    done += count;
  }
  ENGINE_RACE_RETURN_IF_ERROR(MendStagedKeys(number, cut));
  bucket.listener = listener;
  return Status::Ok();
}

void LogReader::DetachListener(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  bucket.listener = nullptr;
}

// For a bucket that has taken no record yet. A lost page cache may have left anything in staging.
// So synced entries that do not verify there are taken from the key log.
Status LogReader::MendStagedKeys(uint32_t number, BucketCut* cut) const {
  const Bucket& bucket = context_.buckets[number];
  if (bucket.staging_verified) return Status::Ok();
  ENGINE_RACE_ASSERT(bucket.synced_watermark <= cut->record_count);
  const EntryCodec codec = context_.codec(number);
  Region page;
  for (uint64_t slot = cut->logged_key_watermark; slot < bucket.synced_watermark; ++slot) {
    format::KeyEntry& entry = cut->staged_keys[slot - cut->logged_key_watermark];
    KeyRecord record;
    if (codec.Decode(entry, static_cast<uint32_t>(slot), slot + 1, &record)) continue;
    const uint64_t offset = context_.geometry().KeyOffset(number, slot);
    if (page.data() == nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page));
    }
    ENGINE_RACE_RETURN_IF_ERROR(context_.files.KeyFile(number).Read(
        page.data(), kIoAlignment, offset / kIoAlignment * kIoAlignment));
    std::memcpy(&entry, page.data() + offset % kIoAlignment, sizeof(entry));
  }
  return Status::Ok();
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
