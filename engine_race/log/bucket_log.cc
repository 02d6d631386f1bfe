#include "engine_race/log/bucket_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace engine_race {

BucketLog::BucketLog(const Options& options, StoreFiles files)
    : log_(options.log),
      files_(std::move(files)),
      staging_(files_),
      buckets_(files_.identity.geometry.bucket_count) {}

Status BucketLog::Open(const Options& options, const std::string& dir,
                       std::unique_ptr<BucketLog>* log) {
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFiles(options, dir, &files));
  std::unique_ptr<BucketLog> opened(new BucketLog(options, std::move(files)));
  ENGINE_RACE_RETURN_IF_ERROR(opened->staging_.Map());
  ENGINE_RACE_RETURN_IF_ERROR(opened->Recover());
  *log = std::move(opened);
  return Status::Ok();
}

Status BucketLog::RefuseBadBucket(uint32_t bucket) const {
  return Status::Corruption(std::string(format::kStagingCountsName) + ": the counts of bucket " +
                            std::to_string(bucket) + " are damaged");
}

Status BucketLog::Append(uint64_t key, const char* value) {
  const uint32_t index = geometry().BucketOf(key);
  Bucket& bucket = buckets_[index];
  if (bucket.damaged) [[unlikely]] {
    return RefuseBadBucket(index);
  }
  // Outside the lock: the sum hangs on the value alone.
  const uint32_t value_sum = value == nullptr ? 0 : ValueSum(value);
  ENGINE_RACE_RETURN_IF_ERROR(staging_.Reserve(index));
  std::unique_lock<std::mutex> lock(bucket.mutex);
  Status room = MakeRoom(index, &lock);
  if (!room.ok()) [[unlikely]] {
    // Whoever waits must find out for itself.
    bucket.changed.notify_all();
    return room;
  }
  Stage(index, key, value, value_sum);
  bucket.WakeOneIfRoom();
  return WriteIdleGroups(index, &lock);
}

// Under the bucket's lock, which is dropped while a group is written or waited for.
Status BucketLog::MakeRoom(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = buckets_[index];
  while (true) {
    // Acquire pairs with the release in Latch: the status is there.
    if (latched_.load(std::memory_order_acquire)) [[unlikely]] {
      return LatchedStatus();
    }
    if (bucket.record_count == geometry().bucket_capacity_records) {
      return Status::Full("bucket " + std::to_string(index) + " holds all the records it can");
    }
    // A full group that nobody writes is one whose write failed: it goes first, so that a full
    // disk refuses the next write instead of filling the other half.
    FullGroup full;
    if (FindIdleGroup(bucket, &full)) [[unlikely]] {
      ENGINE_RACE_RETURN_IF_ERROR(WriteIdleGroups(index, lock));
      continue;
    }
    if (bucket.HasRoom()) [[likely]] {
      break;
    }
    bucket.Wait(lock);
  }
  return bucket.listener == nullptr ? Status::Ok() : bucket.listener->Prepare(index);
}

// Under the bucket's lock, after MakeRoom.
void BucketLog::Stage(uint32_t index, uint64_t key, const char* value, uint32_t value_sum) {
  Bucket& bucket = buckets_[index];
  const uint64_t slot = bucket.record_count;
  const uint64_t values_per_group = geometry().values_per_group();
  char* const place =
      staging_.ValueGroup(index, slot / values_per_group) + slot % values_per_group * kValueBytes;
  if (value != nullptr) {
    std::memcpy(place, value, kValueBytes);
  } else {
    std::memset(place, 0, kValueBytes);
  }
  KeyRecord record;
  record.key = key;
  // Each append takes one number; as long as no slot is used twice they run along with the slots.
  record.sequence = slot;
  record.slot = static_cast<uint32_t>(slot);
  record.value_sum = value_sum;
  record.tombstone = value == nullptr;
  const uint64_t keys_per_group = geometry().keys_per_group();
  staging_.KeyGroup(index, slot / keys_per_group)[slot % keys_per_group] =
      codec(index).Encode(record);

  // From here on the record outlives the process.
  bucket.record_count = slot + 1;
  staging_.PublishCount(index, format::CountKind::kRecords, bucket.record_count);
  // Before the count: who sees the record counted also finds it indexed.
  if (bucket.listener != nullptr) bucket.listener->OnAppend(index, record);
  // Release pairs with the acquire in RecordCount.
  bucket.published_count.store(bucket.record_count, std::memory_order_release);
}

bool BucketLog::FindIdleGroup(const Bucket& bucket, FullGroup* full) const {
  if (bucket.values.FindIdleFullGroup(bucket.record_count, &full->group)) {
    full->lane = LaneKind::kValues;
    return true;
  }
  full->lane = LaneKind::kKeys;
  return bucket.keys.FindIdleFullGroup(bucket.record_count, &full->group);
}

// Writes every full group that nobody writes yet, the lock dropped meanwhile.
Status BucketLog::WriteIdleGroups(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = buckets_[index];
  FullGroup full;
  while (FindIdleGroup(bucket, &full)) {
    LaneOf(&bucket, full.lane).BeginWrite(full.group);
    lock->unlock();
    const Status written = WriteGroup(index, full);
    lock->lock();
    FinishWrite(index, full, written);
    ENGINE_RACE_RETURN_IF_ERROR(written);
  }
  return Status::Ok();
}

Status BucketLog::WriteGroup(uint32_t index, const FullGroup& full) {
  if (full.lane == LaneKind::kValues) {
    return ValueFile(index).Write(staging_.ValueGroup(index, full.group),
                                  geometry().value_group_bytes,
                                  ValueOffset(index, full.group * geometry().values_per_group()));
  }
  const uint64_t first = full.group * geometry().keys_per_group();
  ReserveKeyLog(index, (full.group + 1) * geometry().key_group_bytes);
  return KeyFile(index).Write(staging_.KeyGroup(index, full.group), geometry().key_group_bytes,
                              KeyOffset(index, first));
}

// Under the bucket's lock.
void BucketLog::FinishWrite(uint32_t index, const FullGroup& full, const Status& written) {
  Bucket& bucket = buckets_[index];
  Lane& lane = LaneOf(&bucket, full.lane);
  if (lane.EndWrite(full.group, written.ok())) {
    const bool values = full.lane == LaneKind::kValues;
    staging_.PublishCount(
        index, values ? format::CountKind::kFlushedValues : format::CountKind::kFlushedKeys,
        lane.flushed());
    if (values) {
      // Release pairs with the acquire in FlushedValueCount.
      bucket.published_flushed_values.store(lane.flushed(), std::memory_order_release);
    }
  }
  // kFull does not latch: the group stays staged and the next write tries again.
  if (!written.ok() && written.code() != Code::kFull) Latch(written);
  if (written.ok()) {
    bucket.WakeOneIfRoom();
  } else {
    bucket.changed.notify_all();
  }
}

// Key groups are small and come seldom, so the key log of a bucket would end up in as many pieces
// as it has groups, and the index build reads it as a whole. Reserving ahead, in steps that grow
// with the log, keeps it in a handful. Only one thread at a time writes a given group, but two
// groups may be on their way: the larger end wins, and reserving twice does no harm.
void BucketLog::ReserveKeyLog(uint32_t index, uint64_t end_bytes) {
  constexpr uint64_t kMinStepBytes = 64 * 1024;
  constexpr uint64_t kMaxStepBytes = 1024 * 1024;
  Bucket& bucket = buckets_[index];
  uint64_t from = 0;
  uint64_t step = 0;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (end_bytes <= bucket.reserved_key_bytes) return;
    from = end_bytes - geometry().key_group_bytes;
    step = std::clamp(from, kMinStepBytes, kMaxStepBytes);
    bucket.reserved_key_bytes = std::min(from + step, geometry().key_region_bytes());
  }
  // A refusal (a full disk, a file system without the call) is for the write itself to report.
  bool supported = false;
  const Status reserved =
      KeyFile(index).Reserve(/*keep_size=*/true, KeyOffset(index, 0) + from, step, &supported);
  static_cast<void>(reserved);
}

Status BucketLog::CutBucket(uint32_t index, AppendListener* listener, BucketCut* cut) {
  Bucket& bucket = buckets_[index];
  if (bucket.damaged) return RefuseBadBucket(index);
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  cut->record_count = bucket.record_count;
  cut->flushed_key_count = bucket.keys.flushed();
  cut->sequence_bound = bucket.record_count;
  cut->staged_keys.resize(bucket.record_count - bucket.keys.flushed());
  const uint64_t per_group = geometry().keys_per_group();
  for (uint64_t done = 0; done < cut->staged_keys.size();) {
    const uint64_t count = std::min<uint64_t>(per_group, cut->staged_keys.size() - done);
    ENGINE_RACE_RETURN_IF_ERROR(staging_.ReadKeys(index, bucket.keys.flushed() + done, count,
                                                  cut->staged_keys.data() + done));
    done += count;
  }
  bucket.listener = listener;
  return Status::Ok();
}

void BucketLog::DetachListener(uint32_t index) {
  const std::lock_guard<std::mutex> lock(buckets_[index].mutex);
  buckets_[index].listener = nullptr;
}

Status BucketLog::ReadValue(uint32_t index, uint64_t slot, char* buffer) const {
  const Bucket& bucket = buckets_[index];
  if (slot >= FlushedValueCount(index)) {
    bool staged = false;
    {
      const std::lock_guard<std::mutex> lock(bucket.mutex);
      staged = slot >= bucket.values.flushed();
      if (staged) bucket.values.Pin(slot);
    }
    if (staged) {
      const Status status = staging_.ReadValues(index, slot, 1, buffer);
      const std::lock_guard<std::mutex> lock(bucket.mutex);
      if (bucket.values.Unpin(slot)) bucket.WakeOneIfRoom();
      return status;
    }
  }
  return ValueFile(index).Read(buffer, kValueBytes, ValueOffset(index, slot));
}

void BucketLog::Latch(const Status& status) {
  Log(log_, LogLevel::kError, "writing ends until the store is reopened: " + status.ToString());
  const std::lock_guard<std::mutex> lock(latch_mutex_);
  if (latch_status_.ok()) latch_status_ = Status::IOError("after " + status.message());
  // Release pairs with the acquire in MakeRoom.
  latched_.store(true, std::memory_order_release);
}

Status BucketLog::LatchedStatus() const {
  const std::lock_guard<std::mutex> lock(latch_mutex_);
  return latch_status_;
}

}  // namespace engine_race
