// What Open does with the counts and the staged groups that it finds.
//
// A group that was full but not yet counted as flushed may be in the log or not; writing it once
// more from staging is right either way, because its place has not been given away since. So
// recovery can be killed and begun again at any point. Partial groups stay where they are.
//
// Staging is verified before it is written over a log: page caches get lost in ways that no id
// shows, and what staging holds then is old or empty while the log may hold synced records.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/doubt.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/record_check.h"

namespace engine_race {

Status BucketLog::Recover() {
  std::vector<BucketState> states;
  ENGINE_RACE_RETURN_IF_ERROR(staging_.ReadCounts(&states));
  JournalReplay journal;
  Status looked = journal.Read(files_.directory.get(), store_id());
  const char* doubt = DoubtPageCache(files_, states);
  if (doubt == nullptr && looked.ok()) {
    looked = CompareWithJournal(files_, staging_, journal, states, &doubt);
  }
  if (doubt == nullptr) {
    for (uint32_t index = 0; index < states.size(); ++index) AdoptState(index, states[index]);
    if (looked.ok()) looked = CheckStagingToWrite(&doubt);
  }
  // What cannot be read cannot be judged: nothing is written then, and reading goes on without it.
  const bool only_readable = doubt == nullptr && looked.code() == Code::kIOError;
  if (!looked.ok() && !only_readable) return looked;
  if (only_readable) Latch(looked);
  if (doubt != nullptr) ENGINE_RACE_RETURN_IF_ERROR(RecoverInDoubt(doubt, journal, &states));
  for (uint32_t index = 0; index < geometry().bucket_count; ++index) {
    if (buckets_[index].damaged) {
      Log(options_.log, LogLevel::kError, RefuseBadBucket(index).message());
      continue;
    }
    WriteFullGroups(index);
  }
  return Status::Ok();
}

// *doubt when what this opening is going to write to the logs from staging does not verify: full
// groups, and in the durable sync modes, which begin with a Sync, all unsynced ones.
Status BucketLog::CheckStagingToWrite(const char** doubt) {
  std::vector<uint32_t> writing;
  for (uint32_t index = 0; index < geometry().bucket_count; ++index) {
    const Bucket& bucket = buckets_[index];
    if (bucket.damaged || bucket.staging_verified) continue;
    FullGroup full;
    if (FindIdleGroup(bucket, &full) ||
        (options_.sync_mode != SyncMode::kNone && bucket.record_count != bucket.synced_count)) {
      writing.push_back(index);
    }
  }
  std::atomic<bool> all_verify{true};
  Status verified = ForEachBucket(writing, [&](uint32_t index) {
    Bucket& bucket = buckets_[index];
    ENGINE_RACE_RETURN_IF_ERROR(VerifyStaging(index, &bucket.staging_verified));
    if (!bucket.staging_verified) all_verify.store(false);
    return Status::Ok();
  });
  if (all_verify.load()) return verified;
  *doubt = "staging lacks what the counts promise";
  return Status::Ok();
}

// Trusts nothing past the synced counts. A store that cannot be written to opens for reading when
// all that its counts promise is in place.
Status BucketLog::RecoverInDoubt(const char* doubt, const JournalReplay& journal,
                                 std::vector<BucketState>* states) {
  Log(options_.log, LogLevel::kInfo,
      std::string(doubt) + ": what was written since the last sync is verified");
  bool readable = false;
  Status recovered = RecoverFromPowerLoss(PageCacheId(files_), journal, states, &readable);
  if (!recovered.ok() && !readable) return recovered;
  if (!recovered.ok()) Latch(recovered);
  for (uint32_t index = 0; index < states->size(); ++index) {
    AdoptState(index, (*states)[index]);
    // All was staged anew, from the logs. Where that failed nothing is written, and what is synced
    // of an unfinished group may stand in the logs alone.
    if (recovered.ok()) buckets_[index].staging_verified = true;
  }
  return Status::Ok();
}

void BucketLog::AdoptState(uint32_t index, const BucketState& state) {
  Bucket& bucket = buckets_[index];
  const bool lanes_ok =
      !state.damaged &&
      bucket.values.Init(geometry().values_per_group(), format::kValuePlaces,
                         state.flushed_value_count, state.record_count, state.value_places) &&
      bucket.keys.Init(geometry().keys_per_group(), format::kKeyPlaces, state.flushed_key_count,
                       state.record_count, state.key_places);
  bucket.damaged = !lanes_ok;
  if (bucket.damaged) return;
  bucket.record_count = state.record_count;
  bucket.synced_count = state.synced_count;
  bucket.staging_verified = state.flushed_key_count == state.record_count &&
                            state.flushed_value_count == state.record_count;
  bucket.reserved_key_bytes = state.flushed_key_count * sizeof(format::KeyEntry);
  bucket.reserved_value_bytes = state.flushed_value_count * kValueBytes;
  // Relaxed: no other thread has seen the log yet.
  bucket.published_count.store(state.record_count, std::memory_order_relaxed);
  // What is synced of an unfinished group lies in the log as well, and is safer there.
  bucket.published_flushed_values.store(std::max(state.flushed_value_count, state.synced_count),
                                        std::memory_order_relaxed);
}

// *verified: all that this opening has found staged verifies. For a bucket that has taken no record
// since.
Status BucketLog::VerifyStaging(uint32_t index, bool* verified) const {
  const Bucket& bucket = buckets_[index];
  BucketState state;
  state.record_count = bucket.record_count;
  state.flushed_value_count = bucket.values.flushed();
  state.flushed_key_count = bucket.keys.flushed();
  state.value_places = bucket.values.places_word();
  state.key_places = bucket.keys.places_word();
  state.synced_count = bucket.synced_count;
  RecordCheck check(files_, staging_, index, state);
  ENGINE_RACE_RETURN_IF_ERROR(check.Init());
  return check.StagingVerifies(verified);
}

// Before the first write to the bucket, under its lock.
Status BucketLog::RequireVerifiedStaging(uint32_t index) {
  Bucket& bucket = buckets_[index];
  ENGINE_RACE_RETURN_IF_ERROR(VerifyStaging(index, &bucket.staging_verified));
  if (bucket.staging_verified) return Status::Ok();
  // Nothing is written to this bucket before an opening has verified everything. Other buckets go
  // on; that opening verifies their new records as well.
  PutInDoubt();
  Status failure =
      Status::Corruption("bucket " + std::to_string(index) +
                         ": staging lacks what the counts promise; reopening the store repairs it");
  Log(options_.log, LogLevel::kError, failure.message());
  return failure;
}

// For a bucket that has taken no record yet: takes from the key log what is synced and does not
// verify in staging, where a lost page cache may have left anything.
Status BucketLog::MendStagedKeys(uint32_t index, BucketCut* cut) const {
  const Bucket& bucket = buckets_[index];
  if (bucket.staging_verified) return Status::Ok();
  Region page;
  for (uint64_t slot = cut->flushed_key_count; slot < bucket.synced_count; ++slot) {
    format::KeyEntry& entry = cut->staged_keys[slot - cut->flushed_key_count];
    KeyRecord record;
    if (codec(index).Decode(entry, static_cast<uint32_t>(slot), slot + 1, &record)) continue;
    const uint64_t offset = KeyOffset(index, slot);
    if (page.data() == nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, /*huge_pages=*/false, &page));
    }
    ENGINE_RACE_RETURN_IF_ERROR(
        KeyFile(index).Read(page.data(), kIoAlignment, offset / kIoAlignment * kIoAlignment));
    std::memcpy(&entry, page.data() + offset % kIoAlignment, sizeof(entry));
  }
  return Status::Ok();
}

// Writes the groups that were full already. One that cannot be written stays staged and readable:
// the store opens, for reading at least.
void BucketLog::WriteFullGroups(uint32_t index) {
  if (!buckets_[index].staging_verified) return;
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    // Acquire pairs with the release in Latch.
    if (latched_.load(std::memory_order_acquire)) return;
    const Status written = RecoverLane(index, kind);
    if (written.ok()) continue;
    Log(options_.log, LogLevel::kWarning,
        "bucket " + std::to_string(index) +
            ": a full group could not be written to its log: " + written.ToString());
    LatchIfLasting(written);
  }
}

Status BucketLog::RecoverLane(uint32_t index, LaneKind kind) {
  Bucket& bucket = buckets_[index];
  Lane& lane = LaneOf(&bucket, kind);
  const bool values = kind == LaneKind::kValues;
  const uint64_t group_bytes = values ? geometry().value_group_bytes : geometry().key_group_bytes;
  FullGroup full;
  full.lane = kind;
  while (lane.FindIdleFullGroup(bucket.record_count, &full.group)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.Reserve(index));
    Region group;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(group_bytes, /*huge_pages=*/false, &group));
    const uint64_t first = full.group * lane.group_records();
    const uint32_t place = lane.PlaceOf(first);
    if (values) {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging_.ReadValues(index, place, 0, lane.group_records(), group.data()));
      ENGINE_RACE_RETURN_IF_ERROR(WriteValues(index, first, lane.group_records(), group.data()));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging_.ReadKeys(index, place, 0, lane.group_records(),
                            reinterpret_cast<format::KeyEntry*>(group.data())));
      ENGINE_RACE_RETURN_IF_ERROR(
          WriteKeys(index, KeyOffset(index, first), group_bytes, group.data()));
    }
    lane.BeginWrite(full.group);
    ENGINE_RACE_RETURN_IF_ERROR(FinishWrite(index, full, Status::Ok()));
  }
  return Status::Ok();
}

}  // namespace engine_race
