// The way of a record into its bucket: staged, counted, and in a full group written to the log.
//
// An append stages one record under the bucket's lock. The thread that fills a group writes it to
// the log, the lock dropped meanwhile, while other threads fill the next group in another place.
// Backpressure: where a lane has no place for the next record, the append waits until a group's
// write has ended. A group whose write failed stays staged and readable. The append that filled it
// is Ok, because its record is staged. The next append of the bucket tries the group again before
// it stages anything, and fails if that fails.
//
// Thread safety: every call from any thread; where a lock is passed, it is the bucket's and held.
// Invariants: a count is published after its records are staged. A group's place is given away
// after its watermark is published. A full group is written by one thread at a time.
#ifndef ENGINE_RACE_LOG_GROUP_WRITER_H_
#define ENGINE_RACE_LOG_GROUP_WRITER_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "engine_race/base/status.h"
#include "engine_race/log/append_status.h"
#include "engine_race/log/journal.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"
#include "engine_race/log/row_keeper.h"

namespace engine_race {

class GroupWriter {
 public:
  // Works on both, which outlive it.
  GroupWriter(LogContext* context, LogWriter* writer)
      : context_(*context), writer_(*writer), rows_(context, writer) {}

  // The first step of an append to the bucket: kCorruption for damaged counts, kFull when the disk
  // has no space for the counts of staging.
  Status BeginAppend(uint32_t bucket) {
    const Bucket& state = context_.buckets[bucket];
    state.Prefetch();
    if (state.damaged) [[unlikely]] {
      return context_.DamagedCounts(bucket);
    }
    return context_.staging.ReserveCounts();
  }
  // Appends one record, a tombstone where `value` is null. With a journal, returns once the record
  // is durable in it, or cannot be.
  AppendStatus Append(uint32_t bucket, uint64_t key, const char* value, Journal* journal) noexcept;

  // Under the bucket's lock, where the lanes have places for the next `count` records. Reserves the
  // places of groups that begin with one of them, as wholes. *must_wait: set where the disk is
  // full, and a group waits for a lower place, which has its space. kFull: no group will leave one.
  Status ReservePlaces(uint32_t bucket, uint64_t count, bool* must_wait);
  // Under the bucket's lock: makes sure that the next `count` records have slots, for a batch that
  // is to hold the bucket. kFull.
  Status MakeSlots(uint32_t bucket, uint64_t count) { return rows_.MakeRoomFor(bucket, count); }

  // Writes every full group of the bucket that no thread writes yet, the lock dropped meanwhile.
  Status WriteIdleGroups(uint32_t bucket, std::unique_lock<std::mutex>* lock);

  // Under the bucket's lock, before the first write to the bucket. kCorruption when the records
  // that this opening found staged do not verify; the next opening is then told to verify
  // everything.
  Status RequireVerifiedStaging(uint32_t bucket);
  // Under the bucket's lock, before anything is staged: RequireVerifiedStaging. Then clears staged
  // entries of records that the bucket does not have. A write that was refused or killed leaves
  // such entries, and its numbers are given to other records. After a loss of power the disk may
  // have the counts of these records and the old entries.
  Status PrepareStaging(uint32_t bucket);

 private:
  Status MakeRoom(uint32_t bucket, std::unique_lock<std::mutex>* lock);
  Status Stage(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash,
               format::JournalDescriptor* staged);
  Status StageIn(uint32_t value_place, uint32_t key_place, const char* value,
                 const format::JournalDescriptor& record);
  Status WriteGroup(uint32_t bucket, const FullGroup& full, bool reserves_ahead);
  // Under the bucket's lock, for a group that Lane::BeginWrite was called for. Counts it as logged
  // when `written` is Ok, and leaves it to be written again otherwise. Ok when the group is in its
  // log and is counted.
  Status FinishWrite(uint32_t bucket, const FullGroup& full, Status written) noexcept;
  // Flushes replaced entries. The first call of an opening replaces those of all other buckets
  // before.
  Status FlushReplaced(uint32_t bucket);

  LogContext& context_;
  LogWriter& writer_;
  RowKeeper rows_;
  // FlushReplaced looks at all buckets once in an opening.
  std::atomic<bool> has_swept_{false};
  std::atomic<bool> has_flushed_swept_{false};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_GROUP_WRITER_H_
