#include "engine_race/log/bucket_log.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/log/failure.h"

namespace engine_race {

BucketLog::BucketLog(const Options& options, StoreFiles files)
    : options_(options),
      files_(std::move(files)),
      staging_(files_),
      buckets_(files_.identity.geometry.bucket_count),
      dirty_files_(files_.key_files.size() + files_.values.file_count()) {
  // What an earlier opening wrote may still have to be flushed. Relaxed: nobody else is here yet.
  for (std::atomic<bool>& dirty : dirty_files_) dirty.store(true, std::memory_order_relaxed);
}

BucketLog::~BucketLog() {
  journal_.reset();
  if (!options_.sync_on_close) return;
  static_cast<void>(Guarded([this] {
    Status synced = Sync();
    if (!synced.ok()) Log(options_.log, LogLevel::kError, "close: " + synced.ToString());
    return synced;
  }));
}

Status BucketLog::Open(const Options& options, const std::string& dir,
                       std::unique_ptr<BucketLog>* log) {
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFiles(options, dir, &files));
  std::unique_ptr<BucketLog> opened(new BucketLog(options, std::move(files)));
  opened->staging_.Start(options.staging_mode, options.log);
  ENGINE_RACE_RETURN_IF_ERROR(opened->Recover());
  Journal* journal = nullptr;
  const Status durable = opened->EnsureJournal(&journal);
  if (!durable.ok()) {
    Log(options.log, LogLevel::kWarning, "open for reading only, for now: " + durable.ToString());
  }
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
  bucket.Prefetch();
  if (bucket.damaged) [[unlikely]] {
    return RefuseBadBucket(index);
  }
  ENGINE_RACE_RETURN_IF_ERROR(staging_.Reserve(index));
  Journal* journal = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(EnsureJournal(&journal));
  std::unique_lock<std::mutex> lock(bucket.mutex);
  JournalRequest request;
  const Status staged = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(MakeRoom(index, &lock));
    return Stage(index, key, value, &request.descriptor);
  });
  if (!staged.ok()) [[unlikely]] {
    // Wake all waiters: each must see the error.
    bucket.changed.notify_all();
    return staged;
  }
  request.value = value;
  // Under the lock: a bucket's records stand in the journal in the order of their slots.
  if (journal != nullptr) journal->Enqueue(&request);
  bucket.WakeOneIfRoom();
  if (journal == nullptr) return WriteIdleGroups(index, &lock);
  // Even after a failure the journal refers to the request, which lies on this stack: wait for it.
  Status status = WriteIdleGroups(index, &lock);
  if (lock.owns_lock()) lock.unlock();
  Status durable = journal->Await(&request);
  return durable.ok() ? std::move(status) : std::move(durable);
}

// Under the bucket's lock, which is dropped while a group is written or waited for.
Status BucketLog::MakeRoom(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = buckets_[index];
  while (true) {
    // Acquire pairs with the release in Latch.
    if (latched_.load(std::memory_order_acquire)) [[unlikely]] {
      return LatchedStatus();
    }
    if (!bucket.staging_verified) [[unlikely]] {
      ENGINE_RACE_RETURN_IF_ERROR(RequireVerifiedStaging(index));
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
    bool must_wait = !bucket.HasRoom();
    if (!must_wait) ENGINE_RACE_RETURN_IF_ERROR(ReserveNextPlace(index, &must_wait));
    if (!must_wait) [[likely]] {
      break;
    }
    bucket.Wait(lock);
  }
  return bucket.listener == nullptr ? Status::Ok() : bucket.listener->Prepare(index);
}

// Makes sure that the place of the next value, which there is, can be stored into. Base places are
// reserved already. On a full disk a group does without an extra place and waits for a base one.
Status BucketLog::ReserveNextPlace(uint32_t index, bool* must_wait) {
  Bucket& bucket = buckets_[index];
  const bool begins = bucket.values.BeginsGroup(bucket.record_count);
  const uint32_t place = bucket.values.NextPlace(bucket.record_count);
  const uint32_t mark = uint32_t{1} << place;
  if (place < format::kBasePlaces || (bucket.reserved_extra_places & mark) != 0) {
    return Status::Ok();
  }
  Status reserved = staging_.ReserveExtraPlace(index, place);
  if (reserved.ok()) {
    bucket.reserved_extra_places |= mark;
  } else if (begins) {
    *must_wait = true;
    return Status::Ok();
  }
  return reserved;
}

// Under the bucket's lock, after MakeRoom. After a failure nothing is counted and the lanes are as
// they were, so that the next write stages into the same slot.
Status BucketLog::Stage(uint32_t index, uint64_t key, const char* value,
                        format::JournalDescriptor* staged) {
  Bucket& bucket = buckets_[index];
  const uint64_t slot = bucket.record_count;
  const uint32_t value_place = bucket.values.NextPlace(slot);
  const uint32_t key_place = bucket.keys.NextPlace(slot);
  staging_.Prefetch(index, value_place, bucket.values.IndexOf(slot), key_place,
                    bucket.keys.IndexOf(slot));
  KeyRecord record;
  record.key = key;
  // Each append takes one number; as long as no slot is used twice they run along with the slots.
  record.sequence = slot;
  record.slot = static_cast<uint32_t>(slot);
  // Here, under the lock: the memory that the value is copied to comes meanwhile.
  record.value_sum = value == nullptr ? 0 : ValueSum(value);
  record.tombstone = value == nullptr;
  *staged = {codec(index).Encode(record), index, record.slot};
  bool ended = false;
  Status written = Guarded([&] {
    Status in_place = StageIn(value_place, key_place, value, *staged);
    ended = true;
    return in_place;
  });
  // Memory was refused while a failure was put into words: the record may be counted.
  if (!ended) written = Status(Code::kIOError, {});
  if (!written.ok()) [[unlikely]] {
    LatchIfLasting(written);
    return written;
  }
  // From here on the record outlives the process.
  if (bucket.values.BeginsGroup(slot)) bucket.values.TakePlace(slot, value_place);
  if (bucket.keys.BeginsGroup(slot)) bucket.keys.TakePlace(slot, key_place);
  bucket.record_count = slot + 1;
  // Before the count: a reader that sees the record counted also finds it indexed.
  if (bucket.listener != nullptr) bucket.listener->OnAppend(index, record);
  // Release pairs with the acquire in RecordCount.
  bucket.published_count.store(bucket.record_count, std::memory_order_release);
  return Status::Ok();
}

// The bytes of the next record, the places of groups that begin with it, and last the count.
Status BucketLog::StageIn(uint32_t value_place, uint32_t key_place, const char* value,
                          const format::JournalDescriptor& record) {
  const uint32_t index = record.bucket;
  const uint64_t slot = record.slot;
  const Lane& values = buckets_[index].values;
  const Lane& keys = buckets_[index].keys;
  ENGINE_RACE_RETURN_IF_ERROR(staging_.StageValue(index, value_place, values.IndexOf(slot), value));
  ENGINE_RACE_RETURN_IF_ERROR(
      staging_.StageKey(index, key_place, keys.IndexOf(slot), record.entry));
  if (values.BeginsGroup(slot)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.PublishStaged(index, format::WordKind::kValuePlaces,
                                                       values.WordWith(slot, value_place)));
  }
  if (keys.BeginsGroup(slot)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.PublishStaged(index, format::WordKind::kKeyPlaces,
                                                       keys.WordWith(slot, key_place)));
  }
  return staging_.PublishStaged(index, format::WordKind::kRecords, slot + 1);
}

Status BucketLog::CutBucket(uint32_t index, AppendListener* listener, BucketCut* cut) {
  Bucket& bucket = buckets_[index];
  if (bucket.damaged) return RefuseBadBucket(index);
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  cut->record_count = bucket.record_count;
  cut->flushed_key_count = bucket.keys.flushed();
  cut->sequence_bound = bucket.record_count;
  cut->staged_keys.resize(bucket.record_count - bucket.keys.flushed());
  for (uint64_t done = 0; done < cut->staged_keys.size();) {
    const uint64_t count =
        std::min<uint64_t>(geometry().keys_per_group(), cut->staged_keys.size() - done);
    const uint32_t place = bucket.keys.PlaceOf(bucket.keys.flushed() + done);
    ENGINE_RACE_RETURN_IF_ERROR(
        staging_.ReadKeys(index, place, 0, count, cut->staged_keys.data() + done));
    done += count;
  }
  ENGINE_RACE_RETURN_IF_ERROR(MendStagedKeys(index, cut));
  bucket.listener = listener;
  return Status::Ok();
}

void BucketLog::DetachListener(uint32_t index) {
  const std::lock_guard<std::mutex> lock(buckets_[index].mutex);
  buckets_[index].listener = nullptr;
}

Status BucketLog::ReadValue(uint32_t index, uint64_t slot, char* buffer) const {
  if (slot >= FlushedValueCount(index)) {
    Bucket& bucket = buckets_[index];
    std::unique_lock<std::mutex> lock(bucket.mutex);
    if (slot >= bucket.values.flushed()) {
      const uint32_t place = bucket.values.PlaceOf(slot);
      bucket.values.Pin(place);
      lock.unlock();
      Status status = Guarded([&] {
        return staging_.ReadValues(index, place, slot % geometry().values_per_group(), 1, buffer);
      });
      lock.lock();
      bucket.values.Unpin(place);
      bucket.WakeOneIfRoom();
      return status;
    }
  }
  const ValuePlace place = files_.values.Locate(index, slot);
  if (place.offset == UnitMap::kNowhere) [[unlikely]] {
    return LostValue(index, slot);
  }
  return place.file->Read(buffer, kValueBytes, place.offset);
}

std::string BucketLog::NameOfValue(uint32_t index, uint64_t slot) const {
  return files_.values.Locate(index, slot).file->name() + ": bucket " + std::to_string(index) +
         ", slot " + std::to_string(slot);
}

Status BucketLog::CorruptValue(uint32_t index, uint64_t slot) const {
  return Status::Corruption(NameOfValue(index, slot) + ": the value does not match its checksum");
}

Status BucketLog::LostValue(uint32_t index, uint64_t slot) const {
  return Status::Corruption(NameOfValue(index, slot) + ": its place on the device is lost");
}

// A full disk and a lack of memory pass: what is staged stays so, and the next write tries again.
void BucketLog::LatchIfLasting(const Status& failure) noexcept {
  if (!CanBeTriedAgain(failure)) Latch(failure);
}

// Takes effect before it is put into words, for which there may be no memory.
void BucketLog::Latch(const Status& status) noexcept {
  // Release pairs with the acquire in MakeRoom: what failed is not tried again.
  latched_.store(true, std::memory_order_release);
  const Status worded = Guarded([&] {
    Status latched = Status::IOError("after " + status.message());
    {
      const std::lock_guard<std::mutex> lock(latch_mutex_);
      if (latch_status_.ok()) latch_status_ = std::move(latched);
    }
    Log(options_.log, LogLevel::kError,
        "writing ends until the store is reopened: " + status.ToString());
    return Status::Ok();
  });
  static_cast<void>(worded);
}

Status BucketLog::LatchedStatus() const {
  const std::lock_guard<std::mutex> lock(latch_mutex_);
  return latch_status_.ok() ? Status(Code::kIOError, {}) : latch_status_;
}

}  // namespace engine_race
