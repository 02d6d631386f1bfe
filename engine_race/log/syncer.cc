// How records become durable: in the logs, flushed, and counted as synced after that.
//
// Staging is never promised to survive a power loss: nobody knows which of its pages the kernel has
// written back. So Sync writes what is staged of unfinished groups to its place in the log; the
// group as a whole is written there again when it is full, with the same bytes in the synced part.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/failure.h"

namespace engine_race {

Status BucketLog::Sync() {
  const uint64_t request = sync_requests_.fetch_add(1) + 1;
  const std::lock_guard<std::mutex> lock(sync_mutex_);
  if (sync_covered_ >= request) return Status::Ok();
  // Records that were acknowledged before these requests are staged by now.
  const uint64_t covered = sync_requests_.load();
  ENGINE_RACE_RETURN_IF_ERROR(SyncAll());
  sync_covered_ = covered;
  return Status::Ok();
}

// Logs a failure, because no caller need be waiting for the checkpoint: a full disk may have room
// by the time that the next batch asks for another.
Status BucketLog::Checkpoint() noexcept {
  return Guarded([this] {
    Status synced = Sync();
    if (!synced.ok()) Log(options_.log, LogLevel::kWarning, "checkpoint: " + synced.ToString());
    return synced;
  });
}

// Under sync_mutex_.
Status BucketLog::SyncAll() {
  // Acquire pairs with the release in Latch.
  if (latched_.load(std::memory_order_acquire)) return LatchedStatus();
  std::vector<std::pair<uint32_t, uint64_t>> targets;
  // A bucket whose staging is lost keeps no other one from being synced.
  Status lost;
  for (uint32_t index = 0; index < geometry().bucket_count; ++index) {
    if (buckets_[index].damaged) continue;
    uint64_t target = 0;
    Status synced = SyncBucket(index, &target);
    if (synced.code() == Code::kCorruption) {
      if (lost.ok()) lost = std::move(synced);
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(synced);
    if (target != 0) targets.emplace_back(index, target);
  }
  if (targets.empty()) return lost;
  ENGINE_RACE_RETURN_IF_ERROR(staging_.ReserveCounts());
  ENGINE_RACE_RETURN_IF_ERROR(FlushLogs());
  for (const auto& [index, target] : targets) {
    const std::lock_guard<std::mutex> lock(buckets_[index].mutex);
    Status published = staging_.PublishWord(index, format::WordKind::kSynced, target);
    if (!published.ok()) {
      LatchIfLasting(published);
      return published;
    }
  }
  ENGINE_RACE_RETURN_IF_ERROR(Flush(files_.counts));
  // Last: a Sync that failed before this leaves the next one all to do again.
  for (const auto& [index, target] : targets) {
    const std::lock_guard<std::mutex> lock(buckets_[index].mutex);
    buckets_[index].synced_count = target;
  }
  return lost;
}

// Brings every record of the bucket into the logs. *target is how many there are; 0 when all of
// them are synced already.
Status BucketLog::SyncBucket(uint32_t index, uint64_t* target) {
  Bucket& bucket = buckets_[index];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  if (bucket.record_count == bucket.synced_count) return Status::Ok();
  if (!bucket.staging_verified) ENGINE_RACE_RETURN_IF_ERROR(RequireVerifiedStaging(index));
  *target = bucket.record_count;
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    Lane& lane = LaneOf(&bucket, kind);
    while (lane.flushed() < *target) {
      // Acquire pairs with the release in Latch.
      if (latched_.load(std::memory_order_acquire)) return LatchedStatus();
      FullGroup full;
      const uint64_t last_group = (*target - 1) / lane.group_records();
      if (FindIdleGroup(bucket, &full)) {
        ENGINE_RACE_RETURN_IF_ERROR(WriteIdleGroups(index, &lock));
      } else if (lane.flushed() / lane.group_records() < last_group || lane.Writing(last_group)) {
        // Other threads are writing the groups that are needed.
        bucket.written.wait(lock);
      } else {
        ENGINE_RACE_RETURN_IF_ERROR(WritePartialGroup(index, kind, *target, &lock));
        break;
      }
    }
  }
  return Status::Ok();
}

// Writes the records below `target` of a group that still fills, the lock dropped meanwhile.
Status BucketLog::WritePartialGroup(uint32_t index, LaneKind kind, uint64_t target,
                                    std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = buckets_[index];
  Lane& lane = LaneOf(&bucket, kind);
  const uint64_t group = (target - 1) / lane.group_records();
  const uint64_t first = std::max(group * lane.group_records(), bucket.synced_count);
  const uint32_t place = lane.PlaceOf(first);
  const uint64_t first_in_group = first - group * lane.group_records();
  // A write of the whole group may not begin meanwhile: this one, ending later, could undo it.
  lane.BeginWrite(group);
  // Whole pages of entries, those before `first` as they are, zeros behind the last one.
  constexpr uint64_t kPageEntries = kIoAlignment / sizeof(format::KeyEntry);
  const bool values = kind == LaneKind::kValues;
  const uint64_t begin_in_group =
      values ? first_in_group : first_in_group / kPageEntries * kPageEntries;
  const uint64_t begin = group * lane.group_records() + begin_in_group;
  const uint64_t count = target - begin;
  const uint64_t page_count = (count + kPageEntries - 1) / kPageEntries;
  lock->unlock();
  Status written = Guarded([&] {
    Region staged;
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(values ? count * kValueBytes : page_count * kIoAlignment,
                         /*huge_pages=*/false, &staged));
    if (values) {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging_.ReadValues(index, place, begin_in_group, count, staged.data()));
      return WriteValues(index, begin, count, staged.data());
    }
    ENGINE_RACE_RETURN_IF_ERROR(staging_.ReadKeys(
        index, place, begin_in_group, count, reinterpret_cast<format::KeyEntry*>(staged.data())));
    return WriteKeys(index, KeyOffset(index, begin), staged.size(), staged.data());
  });
  lock->lock();
  lane.EndPartialWrite(group);
  if (!written.ok()) LatchIfLasting(written);
  bucket.written.notify_all();
  // A thread that filled the group meanwhile has found it taken, so it is written here. A failure
  // comes back in the next write of the bucket.
  const Status rest = WriteIdleGroups(index, lock);
  static_cast<void>(rest);
  return written;
}

Status BucketLog::FlushLogs() {
  const size_t key_files = files_.key_files.size();
  for (size_t i = 0; i < dirty_files_.size(); ++i) {
    if (!dirty_files_[i].exchange(false)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(
        Flush(i < key_files ? files_.key_files[i]
                            : files_.values.file(static_cast<uint32_t>(i - key_files))));
  }
  return PoisonUnlessFlushed(Guarded([this] { return files_.values.FlushMaps(); }));
}

// A flush that fails, for whatever reason, may have marked the pages clean: trying again would
// succeed and mean nothing.
Status BucketLog::Flush(const io::File& file) noexcept {
  // Relaxed: a statistic.
  flush_count_.fetch_add(1, std::memory_order_relaxed);
  return PoisonUnlessFlushed(Guarded([&] { return file.DataSync(); }));
}

Status BucketLog::PoisonUnlessFlushed(const Status& flushed) noexcept {
  if (flushed.ok()) return Status::Ok();
  Status failure = CopyAs(Code::kIOError, flushed);
  Poison(failure);
  return failure;
}

// Ends all writing, and makes the next opening verify whatever is not synced.
void BucketLog::Poison(const Status& status) noexcept {
  Latch(status);
  PutInDoubt();
}

// Makes the next opening verify whatever is not synced. One bucket without a page cache id is
// enough for that, so it may end halfway.
void BucketLog::PutInDoubt() noexcept {
  const Status noted = Guarded([this] {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.ReserveCounts());
    Status first_failure;
    for (uint32_t index = 0; index < geometry().bucket_count; ++index) {
      if (buckets_[index].damaged) continue;
      Status published = staging_.PublishWord(index, format::WordKind::kPageCache, 0);
      if (first_failure.ok()) first_failure = std::move(published);
    }
    return first_failure;
  });
  if (noted.ok()) return;
  static_cast<void>(Guarded([&] {
    Log(options_.log, LogLevel::kError,
        "the next opening may not be told to verify what is not synced: " + noted.ToString());
    return Status::Ok();
  }));
}

// The journal of a durable sync mode, null in SyncMode::kNone. Where it could not be had at Open,
// on a full disk, the store is open for reading and each write tries again.
Status BucketLog::EnsureJournal(Journal** journal) {
  *journal = nullptr;
  if (options_.sync_mode == SyncMode::kNone) return Status::Ok();
  // Acquire pairs with the release below.
  *journal = ready_journal_.load(std::memory_order_acquire);
  if (*journal != nullptr) [[likely]] {
    return Status::Ok();
  }
  const std::lock_guard<std::mutex> lock(journal_mutex_);
  if (journal_ == nullptr) ENGINE_RACE_RETURN_IF_ERROR(OpenJournal());
  *journal = journal_.get();
  // Release pairs with the acquire above and in the statistics.
  ready_journal_.store(*journal, std::memory_order_release);
  return Status::Ok();
}

// Under journal_mutex_.
Status BucketLog::OpenJournal() {
  // The logs take over from an earlier journal before a new one is begun.
  ENGINE_RACE_RETURN_IF_ERROR(Sync());
  Journal::Callbacks callbacks;
  callbacks.checkpoint = [this] { return Checkpoint(); };
  callbacks.on_failure = [this](const Status& status) { Poison(status); };
  const uint32_t batch_records =
      options_.sync_mode == SyncMode::kGroup ? format::kJournalBatchRecords : 1;
  return Journal::Open(files_.directory.get(), store_id(), options_.journal_bytes,
                       options_.file_mode, batch_records, std::move(callbacks), &journal_);
}

uint64_t BucketLog::SyncedCount(uint32_t index) const {
  const std::lock_guard<std::mutex> lock(buckets_[index].mutex);
  return buckets_[index].synced_count;
}

uint64_t BucketLog::flush_count() const {
  // Relaxed: a statistic.
  const uint64_t flush_count = flush_count_.load(std::memory_order_relaxed);
  // Acquire, here and below, pairs with the release in EnsureJournal.
  const Journal* const journal = ready_journal_.load(std::memory_order_acquire);
  return flush_count + (journal == nullptr ? 0 : journal->flush_count());
}

uint64_t BucketLog::durable_write_count() const {
  const Journal* const journal = ready_journal_.load(std::memory_order_acquire);
  return journal == nullptr ? 0 : journal->durable_record_count();
}

}  // namespace engine_race
