#include "engine_race/log/recovery.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/log/batch_intents.h"
#include "engine_race/log/doubt.h"
#include "engine_race/log/page_cache.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/power_recovery.h"
#include "engine_race/log/record_check.h"

namespace engine_race {

namespace {

// Whether a segment that holds records has no place.
bool BucketLacksSegments(const StoreFiles& files, uint32_t bucket, const BucketState& state,
                         bool trusted) {
  // Rows without a place are free.
  if (state.damaged || state.table.has_rows()) return false;
  const uint64_t end =
      trusted ? std::max(state.LoggedKeyCount(), state.LoggedValueCount()) : state.synced_watermark;
  for (uint64_t slot = 0; slot < end; slot += files.identity.geometry.row_records()) {
    if (!files.slots.LocateKeys(bucket, slot).found()) return true;
  }
  return false;
}

bool LacksSegments(const StoreFiles& files, const std::vector<BucketState>& states, bool trusted) {
  for (uint32_t bucket = 0; bucket < states.size(); ++bucket) {
    if (BucketLacksSegments(files, bucket, states[bucket], trusted)) return true;
  }
  return false;
}

Status NeedsRecovery(const char* why) {
  return Status(Code::kIncomplete, std::string("the store needs a recovery: ") + why);
}

}  // namespace

// Before any place is given, or erased.
Status Recovery::KeepLostSegments(const std::vector<BucketState>& states, bool trusted) {
  SlotFiles& slots = context_.files.slots;
  const bool lost =
      LacksSegments(context_.files, states, trusted) || (trusted && slots.table().lacks_entries());
  if (lost) {
    Log(context_.options.log, LogLevel::kError,
        slots.table_file().name() +
            ": segments that may hold records have no place there, so these records are lost");
  }
  const auto is_damaged = [](const BucketState& state) { return state.damaged; };
  // A damaged bucket may have lost some, too.
  if (!lost && !slots.has_damage() && std::none_of(states.begin(), states.end(), is_damaged)) {
    return Status::Ok();
  }
  if (context_.options.read_only) return Status::Ok();
  const Status kept = context_.reserve.Write([&] { return slots.KeepLost(); });
  // A failed flush latches: the store then serves reads, and no place is given.
  static_cast<void>(writer_.FlushRows());
  if (kept.code() != Code::kFull) return kept;
  Log(context_.options.log, LogLevel::kWarning,
      "what is left of lost segments may be overwritten after a later opening: " + kept.message());
  return Status::Ok();
}

Status Recovery::Run(bool may_verify) {
  std::vector<BucketState> states;
  FoundCoverage covered;
  // The coverage beside the counts, so that the device is waited for once.
  NumberQueue coverages(1);
  ENGINE_RACE_RETURN_IF_ERROR(RunParallel("er-log", 2, [&](uint32_t worker) {
    if (worker == 0) ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReadCounts(&states));
    uint32_t number = 0;
    if (coverages.Take(&number)) covered = ReadCoverage(context_.files);
    return Status::Ok();
  }));
  NoteLostRows(context_.files, &states);
  const char* doubt = DoubtPageCache(context_.files, states);
  if (doubt != nullptr && !may_verify) return NeedsRecovery(doubt);
  ENGINE_RACE_RETURN_IF_ERROR(KeepLostSegments(states, doubt == nullptr));
  JournalReplay journal;
  Status looked = journal.Read(context_.files.directory.get(), context_.ids(),
                               context_.geometry().value_bytes());
  // In doubt too: staged records count below the counts alone.
  bool redone = false;
  ENGINE_RACE_RETURN_IF_ERROR(RedoBatches(&states, &redone));
  // An intent may name records that no row holds.
  if (doubt == nullptr && redone) doubt = DoubtRows(states);
  if (doubt == nullptr && looked.ok()) {
    looked = CompareWithJournal(context_.files, context_.staging, journal, states, &doubt);
  }
  if (doubt == nullptr && looked.ok()) {
    looked = CompareWithCoverage(context_.files, covered, states, &doubt);
  }
  if (doubt == nullptr) {
    AdoptStates(&states);
    if (looked.ok()) looked = CheckStagingToWrite(&doubt);
    if (doubt != nullptr) TakeTablesBack(&states);
  }
  // Records that cannot be read cannot be verified: the store is not written to, but serves reads.
  const bool only_readable = doubt == nullptr && looked.code() == Code::kIOError;
  if (!looked.ok() && !only_readable) return looked;
  if (only_readable) context_.latch.Latch(looked);
  if (doubt != nullptr) {
    if (!may_verify) return NeedsRecovery(doubt);
    Log(context_.options.log, LogLevel::kInfo,
        std::string(doubt) + ": what was written since the last sync is verified");
    ENGINE_RACE_RETURN_IF_ERROR(context_.options.read_only
                                    ? AdoptReadable(doubt, journal, covered, &states)
                                    : RecoverInDoubt(journal, &states));
  }
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    if (context_.buckets[index].damaged) {
      Log(context_.options.log, LogLevel::kError, context_.DamagedCounts(index).message());
      continue;
    }
    WriteFullGroups(index);
  }
  return Status::Ok();
}

// Finishes the batches that an interruption left committed. A recovery that is killed here begins
// with the same intents again. They are gone before a doubt ends, so that no later opening counts
// records that are lost. *redone: the counts of some states have changed.
Status Recovery::RedoBatches(std::vector<BucketState>* states, bool* redone) {
  MovedCounts moved;
  ENGINE_RACE_RETURN_IF_ERROR(RedoIntents(context_.files, states, &moved));
  *redone = !moved.logged.empty() || !moved.staged.empty();
  if (context_.options.read_only) return Status::Ok();
  // The counts of a large batch are durable before they are relied on. Without the intent a loss of
  // power between them would tear it.
  const bool has_large = !moved.logged.empty();
  if (has_large) ENGINE_RACE_RETURN_IF_ERROR(MakeLargeDurable(context_.files));
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] {
    const Staging& staging = context_.staging;
    if (has_large || !moved.staged.empty()) {
      ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
    }
    for (const uint32_t bucket : moved.staged) {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging.PublishWord(bucket, format::WordKind::kRecords, (*states)[bucket].record_count));
    }
    for (const uint32_t bucket : moved.logged) {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging.WriteLine(bucket, (*states)[bucket], format::WordKind::kPageCache));
    }
    return Status::Ok();
  }));
  // Its intent goes when its counts are durable. A store that has latched serves reads.
  if (has_large && context_.latch.latched()) return Status::Ok();
  if (has_large) ENGINE_RACE_RETURN_IF_ERROR(writer_.Flush(context_.files.counts));
  return context_.reserve.Write([&] { return EraseIntents(context_.files); });
}

// Sets *doubt when staged records that this opening will write to the logs do not verify. Those are
// full groups. In the durable sync modes, which begin with a Sync, they are all unsynced records.
Status Recovery::CheckStagingToWrite(const char** doubt) {
  std::vector<uint32_t> writing;
  for (uint32_t index = 0; index < context_.geometry().bucket_count; ++index) {
    const Bucket& bucket = context_.buckets[index];
    if (bucket.damaged || bucket.staging_verified) continue;
    FullGroup full;
    if (bucket.FindIdleGroup(&full) || (context_.options.sync_mode != SyncMode::kNone &&
                                        bucket.record_count != bucket.synced_watermark)) {
      writing.push_back(index);
    }
  }
  const auto verify = [this](uint32_t index, bool* verifies) {
    Bucket& bucket = context_.buckets[index];
    ENGINE_RACE_RETURN_IF_ERROR(
        VerifyStaging(context_.files, context_.staging, index, bucket, &bucket.staging_verified));
    *verifies = bucket.staging_verified;
    return Status::Ok();
  };
  bool all_verify = false;
  ENGINE_RACE_RETURN_IF_ERROR(AreAllGood(writing, verify, &all_verify));
  if (!all_verify) *doubt = "staging lacks what the counts promise";
  return Status::Ok();
}

// Takes the counts for the truth if readers find all that they promise past the synced watermarks.
// An index on disk that covers more records shows that counts or rows were lost.
Status Recovery::AdoptReadable(const char* doubt, const JournalReplay& journal,
                               const FoundCoverage& covered, std::vector<BucketState>* states) {
  std::vector<uint32_t> doubtful;
  for (uint32_t index = 0; index < states->size(); ++index) {
    if (!(*states)[index].damaged) doubtful.push_back(index);
  }
  bool readable = false;
  const char* lost = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(
      AreAllReadable(context_.files, context_.staging, journal, doubtful, states, &readable));
  ENGINE_RACE_RETURN_IF_ERROR(CompareWithCoverage(context_.files, covered, *states, &lost));
  if (!readable || lost != nullptr) {
    return NeedsRecovery(lost != nullptr ? lost : doubt);
  }
  AdoptStates(states);
  return Status::Ok();
}

// Trusts nothing past the synced watermarks. A store that cannot be written to opens for reading
// when all that its counts promise is there.
Status Recovery::RecoverInDoubt(const JournalReplay& journal, std::vector<BucketState>* states) {
  bool readable = false;
  Status recovered = PowerRecovery(&context_, &writer_, journal)
                         .Run(PageCacheId(context_.files), states, &readable);
  if (!recovered.ok() && !readable) return recovered;
  if (!recovered.ok()) context_.latch.Latch(recovered);
  ENGINE_RACE_ASSERT(!recovered.ok() ||
                     std::all_of(states->begin(), states->end(), [](const BucketState& state) {
                       return state.damaged || state.synced_watermark == state.record_count;
                     }));
  AdoptStates(states);
  return Status::Ok();
}

void Recovery::AdoptStates(std::vector<BucketState>* states) {
  for (uint32_t index = 0; index < states->size(); ++index) AdoptState(index, &(*states)[index]);
}

// Takes the table of the state, unless the bucket is damaged.
void Recovery::AdoptState(uint32_t index, BucketState* state) {
  Bucket& bucket = context_.buckets[index];
  bucket.damaged = state->damaged || !bucket.Adopt(context_.geometry(), *state);
  if (bucket.damaged) return;
  AdoptTable(index, std::move(state->table));
  bucket.found_clean_at = state->clean_at;
  bucket.staging_verified = state->LoggedKeyCount() == state->record_count &&
                            state->LoggedValueCount() == state->record_count;
  bucket.reserved_keys = state->logged_key_watermark;
  bucket.reserved_values = state->logged_value_watermark;
  // Relaxed: no other thread has seen the log yet.
  bucket.published_count.store(state->record_count, std::memory_order_relaxed);
}

// Undoes the moves of AdoptStates: in doubt the tables are worked on again.
void Recovery::TakeTablesBack(std::vector<BucketState>* states) {
  for (uint32_t index = 0; index < states->size(); ++index) {
    Bucket& bucket = context_.buckets[index];
    if (!bucket.damaged) (*states)[index].table = std::move(bucket.table);
  }
}

void Recovery::AdoptTable(uint32_t index, SlotTable table) {
  Bucket& bucket = context_.buckets[index];
  bucket.AdoptTable(std::move(table));
  const std::vector<Row>& rows = bucket.table.rows();
  bucket.durable_row_end = static_cast<uint32_t>(rows.size());
  // Of an earlier adoption, before a doubt was found.
  bucket.free_rows.clear();
  bucket.bare_rows.clear();
  bucket.row_versions.assign(rows.size(), 0);
  bucket.row_gaps.assign(rows.size(), 0);
  bucket.gap_count = 0;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (rows[row].free()) {
      (context_.files.slots.HasPlace(index, row) ? bucket.free_rows : bucket.bare_rows).insert(row);
    }
    bucket.CountGaps(row);
  }
}

// Writes the groups that were full already. One that cannot be written stays staged and readable:
// the store opens, for reading at least.
void Recovery::WriteFullGroups(uint32_t index) {
  Bucket& bucket = context_.buckets[index];
  if (!bucket.staging_verified || context_.latch.latched()) return;
  std::unique_lock<std::mutex> lock(bucket.mutex);
  FullGroup full;
  if (!bucket.FindIdleGroup(&full)) return;
  Status written = context_.staging.ReserveCounts();
  if (written.ok()) {
    written = groups_.WriteIdleGroups(index, &lock);
  } else {
    context_.latch.LatchIfLasting(written);
  }
  if (written.ok()) return;
  Log(context_.options.log, LogLevel::kWarning,
      "bucket " + std::to_string(index) +
          ": a full group could not be written to its log: " + written.ToString());
}

}  // namespace engine_race
