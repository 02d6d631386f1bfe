#include "engine_race/log/group_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/record_check.h"
#include "engine_race/log/region_pool.h"

namespace engine_race {

AppendStatus GroupWriter::Append(uint32_t index, uint64_t key, const char* value,
                                 Journal* journal) noexcept {
  Bucket& bucket = context_.buckets[index];
  // BeginAppend has refused damaged counts.
  ENGINE_RACE_ASSERT(!bucket.damaged);
  const uint64_t value_hash =
      value == nullptr ? 0 : HashValue(value, context_.geometry().value_bytes());
  std::unique_lock<std::mutex> lock(bucket.mutex);
  JournalRequest request;
  Status staged = Guarded([&] {
    if (value != nullptr && bucket.listener != nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(bucket.listener->CheckRoom());
    }
    ENGINE_RACE_RETURN_IF_ERROR(MakeRoom(index, &lock));
    return Stage(index, key, value, value_hash, &request.descriptor);
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
  // The record outlives the process even if its group cannot be written. The group then stays
  // staged, and the next append of the bucket meets the failure.
  const Status written = WriteIdleGroups(index, &lock);
  static_cast<void>(written);
  if (journal == nullptr) return Status::Ok();
  if (lock.owns_lock()) lock.unlock();
  return AppendStatus::Appended(journal->Await(&request));
}

// Under the bucket's lock, which is dropped while a group is written or waited for.
Status GroupWriter::MakeRoom(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = context_.buckets[index];
  ENGINE_RACE_ASSERT(lock->owns_lock());
  while (true) {
    if (context_.latch.latched()) [[unlikely]] {
      return context_.latch.status();
    }
    if (!bucket.may_stage) [[unlikely]] {
      ENGINE_RACE_RETURN_IF_ERROR(PrepareStaging(index));
    }
    ENGINE_RACE_RETURN_IF_ERROR(rows_.MakeRoom(index));
    // A full group that nobody writes is one whose write failed. It is written first, so that a
    // full disk refuses the next record instead of filling more places.
    FullGroup full;
    if (bucket.FindIdleGroup(&full)) [[unlikely]] {
      ENGINE_RACE_RETURN_IF_ERROR(WriteIdleGroups(index, lock));
      continue;
    }
    bool must_wait = !bucket.HasRoom();
    const bool begins_group = bucket.values.BeginsGroup(bucket.record_count) ||
                              bucket.keys.BeginsGroup(bucket.record_count);
    if (!must_wait && begins_group) {
      ENGINE_RACE_RETURN_IF_ERROR(ReservePlaces(index, /*count=*/1, &must_wait));
    }
    if (!must_wait) [[likely]] {
      break;
    }
    bucket.Wait(lock);
  }
  ENGINE_RACE_ASSERT(bucket.HasRoom() && bucket.may_stage);
  return bucket.listener == nullptr ? Status::Ok() : bucket.listener->Prepare(index);
}

// The very first group of a bucket goes without: staging reserves its place as it fills. Lower
// places that will not get free are those of the new groups themselves, and of the group that goes
// on.
Status GroupWriter::ReservePlaces(uint32_t index, uint64_t count, bool* must_wait) {
  const uint64_t sequence = context_.buckets[index].record_count;
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    Lane lane = context_.buckets[index].LaneOf(kind);
    const uint64_t begun = lane.BegunBy(sequence, count);
    const uint32_t continued =
        lane.BeginsGroup(sequence) ? format::kMaxPlaces : lane.PlaceOf(sequence);
    uint64_t first = lane.NextGroup(sequence);
    for (uint64_t i = 0; i < begun; ++i, first += lane.group_records()) {
      const uint32_t place = lane.FreePlace();
      lane.TakePlace(first, place);
      if (first == 0) continue;
      Status reserved = context_.staging.ReservePlace(kind, index, place);
      if (reserved.ok()) continue;
      const uint64_t own_lower_count = i + (continued < place ? 1 : 0);
      if (own_lower_count == place || reserved.code() != Code::kFull) return reserved;
      *must_wait = true;
      return Status::Ok();
    }
  }
  return Status::Ok();
}

// Under the bucket's lock, after MakeRoom. After a failure nothing is counted and the lanes are as
// they were, so that the next write stages into the same slot.
Status GroupWriter::Stage(uint32_t index, uint64_t key, const char* value, uint64_t value_hash,
                          format::JournalDescriptor* staged) {
  Bucket& bucket = context_.buckets[index];
  const uint64_t sequence = bucket.record_count;
  const uint64_t slot = bucket.table.SlotOf(sequence);
  const uint32_t value_place = bucket.values.NextPlace(sequence);
  const uint32_t key_place = bucket.keys.NextPlace(sequence);
  // MakeRoom has found both.
  ENGINE_RACE_ASSERT(value_place < format::kValuePlaces && key_place < format::kKeyPlaces);
  ENGINE_RACE_ASSERT(slot < context_.geometry().bucket_capacity_records);
  bucket.at_cut.See(context_.cuts.number(), sequence);
  context_.staging.Prefetch(index, value_place, bucket.values.IndexOf(sequence), key_place,
                            bucket.keys.IndexOf(sequence));
  KeyRecord record;
  record.key = key;
  record.sequence = sequence;
  record.slot = static_cast<uint32_t>(slot);
  record.value_hash = value_hash;
  record.tombstone = value == nullptr;
  *staged = {SlotTable::EncodeAppended(context_.codec(index), record, sequence), index, 0};
  // Where memory for a failure's message is refused, the record may be counted.
  Status written =
      GuardedAs(Code::kIOError, [&] { return StageIn(value_place, key_place, value, *staged); });
  if (!written.ok()) [[unlikely]] {
    bucket.may_stage = false;
    context_.latch.LatchIfLasting(written);
    return written;
  }
  // From here on the record outlives the process.
  if (bucket.values.BeginsGroup(sequence)) bucket.values.TakePlace(sequence, value_place);
  if (bucket.keys.BeginsGroup(sequence)) bucket.keys.TakePlace(sequence, key_place);
  bucket.record_count = sequence + 1;
  // Before the count: a reader that sees the record counted also finds it indexed.
  if (bucket.listener != nullptr) bucket.listener->OnAppend(index, record);
  // Release pairs with the acquire in Bucket::RecordCount.
  bucket.published_count.store(bucket.record_count, std::memory_order_release);
  return Status::Ok();
}

// The bytes of the next record, the places of groups that begin with it, and last the count.
Status GroupWriter::StageIn(uint32_t value_place, uint32_t key_place, const char* value,
                            const format::JournalDescriptor& record) {
  const uint32_t index = record.bucket;
  const uint64_t sequence = record.entry.sequence();
  Staging& staging = context_.staging;
  const Lane& values = context_.buckets[index].values;
  const Lane& keys = context_.buckets[index].keys;
  ENGINE_RACE_RETURN_IF_ERROR(
      staging.StageValue(index, value_place, values.IndexOf(sequence), value));
  ENGINE_RACE_RETURN_IF_ERROR(
      staging.StageKey(index, key_place, keys.IndexOf(sequence), record.entry));
  Staging::Fence();
  if (values.BeginsGroup(sequence)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging.PublishStaged(index, format::WordKind::kValuePlaces,
                                                      values.WordWith(sequence, value_place)));
  }
  if (keys.BeginsGroup(sequence)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging.PublishStaged(index, format::WordKind::kKeyPlaces,
                                                      keys.WordWith(sequence, key_place)));
  }
  return staging.PublishStaged(index, format::WordKind::kRecords, sequence + 1);
}

// Throws nothing: other threads would wait for ever for a group whose write never ends.
Status GroupWriter::WriteIdleGroups(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = context_.buckets[index];
  FullGroup full;
  ENGINE_RACE_ASSERT(lock->owns_lock());
  while (bucket.FindIdleGroup(&full)) {
    if (context_.latch.latched()) [[unlikely]] {
      // The count on disk may lack records of the group, see BatchWriter::Count. With a watermark
      // beyond it the counts would be damaged. Others may wait for the group in vain.
      bucket.changed.notify_all();
      bucket.written.notify_all();
      return Guarded([&] { return context_.latch.status(); });
    }
    bucket.LaneOf(full.kind).BeginWrite(full.group);
    // Recovery does not: the disk may have little room for the other groups that it found.
    const bool reserves_ahead = bucket.may_stage;
    lock->unlock();
    Status written = Guarded([&] {
      const LatencyTimer timer(context_.group_writes);
      return WriteGroup(index, full, reserves_ahead);
    });
    lock->lock();
    ENGINE_RACE_RETURN_IF_ERROR(FinishWrite(index, full, std::move(written)));
  }
  return Status::Ok();
}

Status GroupWriter::WriteGroup(uint32_t index, const FullGroup& full, bool reserves_ahead) {
  const bool values = full.kind == LaneKind::kValues;
  // Values only from an extra place: then several groups of the bucket are on their way, so it
  // takes a large share of the load.
  if (reserves_ahead && (!values || full.place >= format::kBasePlaces)) {
    writer_.ReserveAhead(index, full.kind, full.group);
  }
  RegionPool::Lease buffer;
  const char* group = nullptr;
  const bool makes_holes = values && writer_.makes_holes();
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.staging.ReadFull(index, full, /*by_pread=*/makes_holes, &buffer, &group));
  const uint64_t count = context_.geometry().group_records(full.kind);
  ENGINE_RACE_RETURN_IF_ERROR(
      writer_.WriteRecordsOf(full.kind, index, full.group * count, count, group, makes_holes));
  if (values) return Status::Ok();
  // Acquire pairs with the release in BucketLog::set_key_group_listener.
  KeyGroupListener* const listener = context_.key_group_listener.load(std::memory_order_acquire);
  if (listener != nullptr) {
    listener->OnKeyGroup(index, {reinterpret_cast<const format::KeyEntry*>(group), count},
                         (full.group + 1) * count);
  }
  return Status::Ok();
}

Status GroupWriter::FinishWrite(uint32_t index, const FullGroup& full, Status written) noexcept {
  Bucket& bucket = context_.buckets[index];
  Lane& lane = bucket.LaneOf(full.kind);
  const bool values = full.kind == LaneKind::kValues;
  // The word is published before the lane moves, because the lane then gives the place away. With a
  // watermark that lags behind, recovery would write the next group of that place over this one. A
  // word that cannot be written leaves the group to be written again.
  Lane moved = lane;
  if (written.ok() && moved.EndWrite(full.group, /*ok=*/true)) {
    const auto word = values ? format::WordKind::kLoggedValues : format::WordKind::kLoggedKeys;
    written = Guarded([&] { return context_.staging.PublishWord(index, word, moved.watermark()); });
  }
  if (written.ok()) {
    ENGINE_RACE_ASSERT(moved.watermark() >= lane.watermark() &&
                       moved.watermark() <= bucket.record_count);
    lane = moved;
    if (values) {
      // Release pairs with the acquire in Bucket::LoggedValueWatermark.
      bucket.published_value_watermark.store(bucket.LoggedCount(LaneKind::kValues),
                                             std::memory_order_release);
    }
  } else {
    lane.EndWrite(full.group, /*ok=*/false);
    context_.latch.LatchIfLasting(written);
  }
  bucket.written.notify_all();
  if (written.ok()) {
    bucket.WakeOneIfRoom();
  } else {
    bucket.changed.notify_all();
  }
  return written;
}

Status GroupWriter::PrepareStaging(uint32_t index) {
  Bucket& bucket = context_.buckets[index];
  ENGINE_RACE_ASSERT(!bucket.held && !bucket.may_stage);
  if (!bucket.staging_verified) ENGINE_RACE_RETURN_IF_ERROR(RequireVerifiedStaging(index));
  const auto replace = [&](const format::KeyEntry& instead, bool* has_found) {
    return context_.staging.ReplaceKeysFrom(index, bucket.record_count, &instead, has_found);
  };
  // Acquire pairs with the release in FlushReplaced.
  bool has_found = bucket.is_swept && has_flushed_swept_.load(std::memory_order_acquire);
  if (!has_found) {
    // Zeros would hide from the next call or opening that the flush has not come, after a failure
    // or a kill.
    ENGINE_RACE_RETURN_IF_ERROR(replace(format::kNoRecord, &has_found));
    if (has_found) ENGINE_RACE_RETURN_IF_ERROR(FlushReplaced(index));
  }
  if (has_found) ENGINE_RACE_RETURN_IF_ERROR(replace({}, &has_found));
  bucket.is_swept = false;
  bucket.may_stage = true;
  return Status::Ok();
}

// A batch that was killed has left entries in many buckets. The first call replaces them in all, so
// that one flush is enough. A bucket whose lock is taken has a flush of its own.
Status GroupWriter::FlushReplaced(uint32_t index) {
  const bool sweeps = !has_swept_.exchange(true);
  for (uint32_t i = 0; sweeps && i < context_.geometry().bucket_count; ++i) {
    if (i == index) continue;
    Bucket& other = context_.buckets[i];
    const std::unique_lock<std::mutex> lock(other.mutex, std::try_to_lock);
    if (!lock.owns_lock() || other.damaged || other.may_stage) continue;
    // A record may count on the disk that does not count here.
    if (context_.latch.latched()) continue;
    // Verifying reads all staged values, so it is left to buckets that need it.
    bool has_found = false;
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.ReplaceKeysFrom(i, other.record_count, /*instead=*/nullptr, &has_found));
    if (!has_found) continue;
    if (!other.staging_verified && !RequireVerifiedStaging(i).ok()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReplaceKeysFrom(
        i, other.record_count, &format::kNoRecord, &other.is_swept));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.staged_keys));
  // Release: a thread that sees it finds the entries of swept buckets durably replaced.
  if (sweeps) has_flushed_swept_.store(true, std::memory_order_release);
  return Status::Ok();
}

Status GroupWriter::RequireVerifiedStaging(uint32_t index) {
  Bucket& bucket = context_.buckets[index];
  ENGINE_RACE_ASSERT(!bucket.damaged && !bucket.staging_verified);
  ENGINE_RACE_RETURN_IF_ERROR(
      VerifyStaging(context_.files, context_.staging, index, bucket, &bucket.staging_verified));
  if (bucket.staging_verified) return Status::Ok();
  // Nothing is written to this bucket before an opening has verified everything. Other buckets go
  // on; that opening verifies their new records as well.
  writer_.PutInDoubt();
  Status failure =
      Status::Corruption("bucket " + std::to_string(index) +
                         ": staging lacks what the counts promise; reopening the store repairs it");
  Log(context_.options.log, LogLevel::kError, failure.message());
  return failure;
}

}  // namespace engine_race
