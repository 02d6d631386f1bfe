// The syncer makes records durable: in the logs, flushed, and then below the synced watermark.
//
// Staging is never promised to survive a power loss, because the kernel writes its pages back in an
// unknown order. So Sync writes what is staged of unfinished groups to its place in the log. From
// then on that part is read from the log alone. It is left out when the group is full: its slots
// may be those of other records by then. In the durable sync modes a journal makes each write
// durable, and its checkpoints are Syncs.
//
// Owner of the journal. Thread safety: every call from any thread, Close from one, as the last.
// Invariant: a bucket's synced watermark moves after the flush of the logs that hold those records.
#ifndef ENGINE_RACE_LOG_SYNCER_H_
#define ENGINE_RACE_LOG_SYNCER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/journal.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"

namespace engine_race {

class Syncer {
 public:
  // Works on all three, which outlive it.
  Syncer(LogContext* context, LogWriter* writer, GroupWriter* groups)
      : context_(*context), writer_(*writer), groups_(*groups) {}

  // Makes every record acknowledged before the call durable. kFull changes nothing. kIOError: a
  // flush has failed, and nothing is written until the store is reopened. kCorruption: a bucket has
  // lost staged records; all other buckets are synced.
  Status Sync();

  // Makes all records of buckets that a batch holds durable. As Sync, but any failure ends it.
  Status SyncHeld(std::span<const BatchPart> parts);
  // Makes durable what was written to the logs, and counts nothing as synced.
  Status FlushLogs();
  // Makes durable what the logs hold, in whole groups. It may go through a batch.
  Status SyncLogged();

  // *journal: the journal of a durable sync mode, null in SyncMode::kNone. Where it could not be
  // had at Open, on a full disk, the store is open for reading and each write tries again. Where
  // records have found no room in journal and logs, they are synced first. A failure comes before a
  // write has appended anything.
  Status EnsureJournal(Journal** journal) {
    *journal = nullptr;
    if (context_.options.sync_mode == SyncMode::kNone) return Status::Ok();
    // Acquire pairs with the release in BeginJournal.
    *journal = ready_journal_.load(std::memory_order_acquire);
    if (*journal != nullptr) [[likely]] {
      return (*journal)->must_checkpoint() ? Sync() : Status::Ok();
    }
    return BeginJournal(journal);
  }

  // The store is open for writing. From then on Close may sync, and tells of full groups that it
  // leaves staged.
  void NoteOpened() { is_opened_ = true; }
  bool is_opened() const { return is_opened_; }
  // Ends the journal. After NoteOpened it also syncs, if the options ask for that.
  void Close() noexcept;

  // Of one bucket: records that are known to outlive power loss.
  uint64_t SyncedWatermark(uint32_t bucket) const;
  // Calls of fdatasync in this opening, and writes that were acknowledged as durable.
  uint64_t flush_count() const;
  uint64_t durable_write_count() const;
  uint64_t written_bytes() const;

 private:
  using SyncTarget = std::pair<uint32_t, uint64_t>;  // a bucket, and how many of its records

  Status SyncAll();
  Status SettlePart(std::vector<SyncTarget>* targets);
  Status FlushTo(std::span<const SyncTarget> targets);
  void AwaitWritesBelow(uint64_t target, Bucket* bucket, std::unique_lock<std::mutex>* lock) const;
  Status SyncBucket(uint32_t bucket, uint64_t* target);
  Status WritePartialGroup(uint32_t bucket, LaneKind kind, uint64_t target,
                           std::unique_lock<std::mutex>* lock);
  Status BeginJournal(Journal** journal);
  Status OpenJournal();
  Status Checkpoint() noexcept;
  void TellOfStagedGroups() const;

  LogContext& context_;
  LogWriter& writer_;
  GroupWriter& groups_;
  // One Sync at a time; those that wait meanwhile share the next one.
  std::mutex sync_mutex_;
  std::atomic<uint64_t> sync_requests_{0};
  uint64_t sync_covered_ = 0;  // requests up to this one are served; under sync_mutex_
  std::mutex journal_mutex_;
  std::atomic<Journal*> ready_journal_{nullptr};
  bool is_opened_ = false;
  // Null in SyncMode::kNone; under journal_mutex_ until it is ready. Last: its thread calls Sync.
  std::unique_ptr<Journal> journal_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_SYNCER_H_
