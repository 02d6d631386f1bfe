#include "engine_race/log/syncer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"

namespace engine_race {

Status Syncer::Sync() {
  const uint64_t request = sync_requests_.fetch_add(1) + 1;
  const std::lock_guard<std::mutex> lock(sync_mutex_);
  if (sync_covered_ >= request) return Status::Ok();
  // Records that were acknowledged before these requests are staged by now.
  const uint64_t covered = sync_requests_.load();
  // Where holes give nothing back, space comes from staging that was synced.
  const uint64_t left_bytes = context_.geometry().slots_have_blocks()
                                  ? SpaceReserve::kLeftBySync
                                  : SpaceReserve::kLeftByEntries;
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([this] { return SyncAll(); }, left_bytes));
  sync_covered_ = covered;
  return Status::Ok();
}

Status Syncer::SyncHeld(std::span<const BatchPart> parts) {
  const std::lock_guard<std::mutex> lock(sync_mutex_);
  if (context_.latch.latched()) return context_.latch.status();
  const auto sync = [&]() -> Status {
    std::vector<SyncTarget> targets;
    for (const BatchPart& part : parts) {
      uint64_t target = context_.buckets[part.bucket].RecordCount();
      ENGINE_RACE_RETURN_IF_ERROR(SyncBucket(part.bucket, &target));
      if (target != 0) targets.emplace_back(part.bucket, target);
    }
    return targets.empty() ? Status::Ok() : FlushTo(targets);
  };
  return context_.reserve.Write(sync, SpaceReserve::kLeftBySync);
}

Status Syncer::FlushLogs() {
  const std::lock_guard<std::mutex> lock(sync_mutex_);
  if (context_.latch.latched()) return context_.latch.status();
  return context_.reserve.Write([this] { return FlushTo({}); });
}

// Sync without the groups that still fill: they are not needed, and each would be written in more
// pieces.
Status Syncer::SyncLogged() {
  const std::lock_guard<std::mutex> lock(sync_mutex_);
  if (context_.latch.latched()) return context_.latch.status();
  std::vector<SyncTarget> targets;
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    Bucket& bucket = context_.buckets[index];
    if (bucket.damaged) continue;
    const std::lock_guard<std::mutex> bucket_lock(bucket.mutex);
    const uint64_t target = std::min(bucket.values.watermark(), bucket.keys.watermark());
    if (target > bucket.synced_watermark) targets.emplace_back(index, target);
  }
  return context_.reserve.Write([&] { return FlushTo(targets); });
}

// Logs a failure, because perhaps no caller waits for the checkpoint. A full disk may have room by
// the time that the next batch asks for another checkpoint.
Status Syncer::Checkpoint() noexcept {
  return Guarded([this] {
    Status synced = Sync();
    if (!synced.ok()) {
      Log(context_.options.log, LogLevel::kWarning, "checkpoint: " + synced.ToString());
    }
    return synced;
  });
}

// Under sync_mutex_.
Status Syncer::SyncAll() {
  if (context_.latch.latched()) return context_.latch.status();
  // Before any of them is synced: the cut through all buckets goes through no batch.
  std::vector<uint64_t> counts(context_.buckets.size());
  context_.batches.Cut([&] {
    for (size_t index = 0; index < counts.size(); ++index) {
      counts[index] = context_.buckets[index].RecordCount();
    }
  });
  std::vector<SyncTarget> targets;
  // A bucket whose staging is lost, or for which the disk has no room, does not keep others from
  // being synced: space comes back only from what is durable.
  Status failed;
  // Else holes in the logs give space back.
  const bool gains_by_parts = !context_.geometry().slots_have_blocks();
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    if (context_.buckets[index].damaged) continue;
    uint64_t target = counts[index];
    Status synced = SyncBucket(index, &target);
    if (synced.code() == Code::kFull && gains_by_parts && !targets.empty()) {
      ENGINE_RACE_RETURN_IF_ERROR(SettlePart(&targets));
      target = counts[index];
      synced = SyncBucket(index, &target);
    }
    const bool is_full = synced.code() == Code::kFull;
    if (is_full || synced.code() == Code::kCorruption) {
      if (failed.ok() || is_full) failed = std::move(synced);
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(synced);
    if (target != 0) targets.emplace_back(index, target);
  }
  if (targets.empty()) {
    // An earlier Sync may have been killed before it flushed what it had stored.
    Status flushed = writer_.FlushFound();
    return flushed.ok() ? failed : flushed;
  }
  // The words that it writes are few.
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] { return FlushTo(targets); }));
  return failed;
}

// For a disk that is full in the middle of a Sync: makes the buckets durable that are in the logs,
// and gives the space of their staging to the others.
Status Syncer::SettlePart(std::vector<SyncTarget>* targets) {
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] { return FlushTo(*targets); }));
  for (const SyncTarget& settled : *targets) {
    Bucket& bucket = context_.buckets[settled.first];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    // After a failure a record may count on disk that does not count here.
    if (context_.latch.latched()) return context_.latch.status();
    if (!bucket.IsStagingIdle()) continue;
    // As in BucketLog::GiveBackStaging.
    if (!bucket.may_stage) ENGINE_RACE_RETURN_IF_ERROR(groups_.PrepareStaging(settled.first));
    context_.staging.GiveBack(settled.first);
  }
  targets->clear();
  return Status::Ok();
}

// Under sync_mutex_. Makes the logs durable, and then counts the records of the targets, which are
// in them, as synced.
Status Syncer::FlushTo(std::span<const SyncTarget> targets) {
  ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushLogs());
  if (targets.empty()) return Status::Ok();
  for (const auto& [index, target] : targets) {
    const std::lock_guard<std::mutex> lock(context_.buckets[index].mutex);
    Status published = context_.staging.PublishWord(index, format::WordKind::kSynced, target);
    if (!published.ok()) {
      context_.latch.LatchIfLasting(published);
      return published;
    }
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  // Last: after a Sync that failed before this, the next one does all of it again.
  for (const auto& [index, target] : targets) {
    Bucket& bucket = context_.buckets[index];
    std::unique_lock<std::mutex> lock(bucket.mutex);
    ENGINE_RACE_ASSERT(bucket.synced_watermark <= target && target <= bucket.record_count);
    AwaitWritesBelow(target, &bucket, &lock);
    const uint64_t end_before = bucket.FoundBySlotEnd();
    bucket.synced_watermark = target;
    bucket.CountMoreGaps(end_before);
    bucket.WakeAwaitingRelease();
  }
  return Status::Ok();
}

// A thread may still write a whole group, of which a Sync has brought a part into the logs. Once
// the records of that part count as synced, other records may get their slots. So the write must
// end before. Writes that begin later leave these records out.
void Syncer::AwaitWritesBelow(uint64_t target, Bucket* bucket,
                              std::unique_lock<std::mutex>* lock) const {
  const auto writes_below = [&] {
    for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
      const Lane& lane = bucket->LaneOf(kind);
      uint64_t group = bucket->synced_watermark / lane.group_records();
      for (; group * lane.group_records() < target; ++group) {
        if (lane.Writing(group)) return true;
      }
    }
    return false;
  };
  // Other writes may have begun during a wait.
  while (writes_below()) bucket->written.wait(*lock);
}

// Brings the first *target records of the bucket into the logs. Sets it to 0 when all of them are
// synced already. A large batch may have synced more since the targets were taken.
Status Syncer::SyncBucket(uint32_t index, uint64_t* target) {
  Bucket& bucket = context_.buckets[index];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  ENGINE_RACE_ASSERT(*target <= bucket.record_count);
  if (*target <= bucket.synced_watermark) *target = 0;
  if (*target == 0) return Status::Ok();
  if (!bucket.staging_verified) ENGINE_RACE_RETURN_IF_ERROR(groups_.RequireVerifiedStaging(index));
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    Lane& lane = bucket.LaneOf(kind);
    while (lane.watermark() < *target) {
      if (context_.latch.latched()) return context_.latch.status();
      FullGroup full;
      const uint64_t last_group = (*target - 1) / lane.group_records();
      if (bucket.FindIdleGroup(&full)) {
        ENGINE_RACE_RETURN_IF_ERROR(groups_.WriteIdleGroups(index, &lock));
      } else if (lane.watermark() / lane.group_records() < last_group || lane.Writing(last_group)) {
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
Status Syncer::WritePartialGroup(uint32_t index, LaneKind kind, uint64_t target,
                                 std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = context_.buckets[index];
  Lane& lane = bucket.LaneOf(kind);
  const uint64_t group = (target - 1) / lane.group_records();
  const uint64_t first = std::max(group * lane.group_records(), bucket.synced_watermark);
  ENGINE_RACE_ASSERT(lock->owns_lock() && first < target && target <= bucket.record_count);
  // A write of the whole group may not begin meanwhile: this one, ending later, could undo it.
  lane.BeginWrite(group);
  // Whole pages of entries, those before `first` as they are, zeros behind the last one.
  const uint64_t step = kind == LaneKind::kValues ? 1 : format::kPageEntries;
  const uint64_t begin = first / step * step;
  const uint64_t count = target - begin;
  const uint32_t places_word = lane.places_word();
  lock->unlock();
  Status written = Guarded([&] {
    Region staged;
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(RoundUp(count, step) * context_.geometry().record_bytes(kind),
                         /*huge_pages=*/false, &staged, context_.placement.memory()));
    ENGINE_RACE_RETURN_IF_ERROR(
        context_.staging.Read(kind, index, places_word, begin, count, staged.data()));
    return writer_.WriteRecordsOf(kind, index, begin, count, staged.data(), writer_.makes_holes());
  });
  lock->lock();
  lane.EndPartialWrite(group);
  if (!written.ok()) context_.latch.LatchIfLasting(written);
  bucket.written.notify_all();
  // A thread that filled the group meanwhile has found it taken, so it is written here. A failure
  // comes back in the next write of the bucket.
  const Status rest = groups_.WriteIdleGroups(index, lock);
  static_cast<void>(rest);
  return written;
}

Status Syncer::BeginJournal(Journal** journal) {
  const std::lock_guard<std::mutex> lock(journal_mutex_);
  if (journal_ == nullptr) ENGINE_RACE_RETURN_IF_ERROR(OpenJournal());
  *journal = journal_.get();
  // Release pairs with the acquire in EnsureJournal and in the statistics.
  ready_journal_.store(*journal, std::memory_order_release);
  return Status::Ok();
}

// Under journal_mutex_.
Status Syncer::OpenJournal() {
  // The logs take over from an earlier journal before a new one is begun.
  ENGINE_RACE_RETURN_IF_ERROR(Sync());
  Journal::Callbacks callbacks;
  callbacks.checkpoint = [this] { return Checkpoint(); };
  callbacks.on_failure = [this](const Status& status) { writer_.Poison(status); };
  callbacks.on_thread_start = [this] { context_.placement.EnterDeviceThread(); };
  callbacks.flushes = &context_.flushes;
  const uint32_t batch_records =
      context_.options.sync_mode == SyncMode::kGroup ? format::kJournalBatchRecords : 1;
  return Journal::Open(context_.files.directory.get(), context_.ids(),
                       context_.geometry().value_bytes(), context_.options.journal_bytes,
                       context_.options.file_mode, batch_records, context_.placement.memory(),
                       std::move(callbacks), &journal_);
}

// After a recovery that has failed the buckets in memory are older than the files. A Sync would
// make their counts durable.
void Syncer::Close() noexcept {
  journal_.reset();
  if (!is_opened_) return;
  static_cast<void>(Guarded([this] {
    Status synced = context_.options.sync_on_close ? Sync() : Status::Ok();
    if (!synced.ok()) {
      Log(context_.options.log, LogLevel::kError, "close: " + synced.ToString());
    }
    TellOfStagedGroups();
    return synced;
  }));
}

// The write that filled such a group was Ok, and no later one has met the failure.
void Syncer::TellOfStagedGroups() const {
  const auto has_full_group = [](Bucket& bucket) {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    FullGroup full;
    return !bucket.damaged && bucket.FindIdleGroup(&full);
  };
  const auto count =
      std::count_if(context_.buckets.begin(), context_.buckets.end(), has_full_group);
  if (count == 0) return;
  Log(context_.options.log, LogLevel::kWarning,
      "close: full groups that are not in their logs stay staged, in so many buckets: " +
          std::to_string(count) + "; the next opening tries to write them");
}

uint64_t Syncer::SyncedWatermark(uint32_t index) const {
  const std::lock_guard<std::mutex> lock(context_.buckets[index].mutex);
  return context_.buckets[index].synced_watermark;
}

uint64_t Syncer::flush_count() const {
  // Acquire, here and below, pairs with the release in BeginJournal.
  const Journal* const journal = ready_journal_.load(std::memory_order_acquire);
  return writer_.flush_count() + (journal == nullptr ? 0 : journal->flush_count());
}

uint64_t Syncer::durable_write_count() const {
  const Journal* const journal = ready_journal_.load(std::memory_order_acquire);
  return journal == nullptr ? 0 : journal->durable_record_count();
}

uint64_t Syncer::written_bytes() const {
  const Journal* const journal = ready_journal_.load(std::memory_order_acquire);
  // Relaxed: a statistic.
  return context_.written_bytes.load(std::memory_order_relaxed) +
         (journal == nullptr ? 0 : journal->written_bytes());
}

}  // namespace engine_race
