// The bucket logs of one store: the room's front page. Start reading here.
//
// A bucket's records are numbered in the order of their appends: the sequence number. The record in
// slot i has the i-th entry of the bucket's key log and the i-th value of its value log.
// Slots are sequence numbers until the first of them is used again (slot_table.h). A new record is
// staged in a file that the kernel holds, and so outlives the process. A full group goes to the log
// with one direct write by the thread that filled it.
//
// The classes and their work:
//   GroupWriter  stages records, writes full groups, makes writers wait (group_writer.h)
//   BatchWriter  writes batches, atomic over all buckets (batch_writer.h)
//   BatchQueue   joins batches that wait, in SyncMode::kGroup (batch_queue.h)
//   LargeBatches  writes those that fit neither staging nor the journal (large_batches.h)
//   LogWriter    writes and flushes the log files; a failed flush (log_writer.h)
//   LogReader    reads records, cuts buckets and tells their listeners (log_reader.h)
//   Syncer       Sync, the durable modes and their journal (syncer.h)
//   RowKeeper    hands out the rows of slots (row_keeper.h)
//   RowMover     moves records, and gives the space of freed rows back (row_mover.h)
//   Follower     takes over what another process has written (follower.h)
//   Recovery     what Open does with what it finds (recovery.h; power_recovery.h after power loss)
//   Staging      staging files and counts (staging.h); StoreFiles  all files (store_files.h)
// They share a LogContext (log_context.h), which holds the state of each bucket (bucket.h).
//
// Thread safety: every call, from any thread, at any time between Open and the destructor.
// Owner of all of the above and of every thread that works for them.
#ifndef ENGINE_RACE_LOG_BUCKET_LOG_H_
#define ENGINE_RACE_LOG_BUCKET_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/io/failed_backends.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/append_status.h"
#include "engine_race/log/batch_queue.h"
#include "engine_race/log/batch_writer.h"
#include "engine_race/log/follower.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/large_batches.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_reader.h"
#include "engine_race/log/log_writer.h"
#include "engine_race/log/row_mover.h"
#include "engine_race/log/syncer.h"

namespace engine_race {

class Recovery;

class BucketLog {
 public:
  // Opens the store in `dir`, made when missing, recovers it and holds its lock. With
  // Options::read_only it changes nothing, unless the store needs a recovery. Then it opens it for
  // writing first, and kIncomplete is the failure of that. While other openings have the store, it
  // tries again for up to DirectoryLock::kPatience. `options` have passed through EffectiveOptions.
  static Status Open(const Options& options, const std::string& dir,
                     std::unique_ptr<BucketLog>* log);
  // Partial groups stay staged; the next opening goes on with them. Syncs first when the options
  // say so.
  ~BucketLog();

  const Geometry& geometry() const { return context_.geometry(); }
  // Of the store's memory and threads.
  const numa::StorePlacement& placement() const { return context_.placement; }
  // Of all queues that read this store's files.
  io::FailedBackends* failed_backends() const { return &failed_backends_; }
  uint64_t store_id() const { return context_.ids().store_id; }
  StoreIds ids() const { return context_.ids(); }
  // Of the store's own directory.
  int directory_fd() const { return context_.files.directory.get(); }
  EntryCodec codec(uint32_t bucket) const { return context_.codec(bucket); }

  // Appends one record; `value` is null for a tombstone. kFull, kIOError, kCorruption (the
  // bucket's counts are damaged, or it has lost staged records) or what the listener's Prepare
  // said. A failure that says `appended` comes in the durable sync modes alone. Reads see the
  // record then. After kFull and kOutOfMemory it is durable once a later write or Sync is Ok. Any
  // other failure latches, and the record may or may not be there after the next opening.
  AppendStatus Append(uint64_t key, const char* value) noexcept;

  // Writes the records of a batch, in keys of the store, as a whole: see batch_writer.h. Later ones
  // of a key win. Answers what Append answers, and kInvalidArgument for more than
  // BatchPlan::kMaxRecords. After a failure no read sees any of several records.
  AppendStatus Write(const WriteBatch& batch) noexcept;

  // Makes every record acknowledged before the call durable: in the logs, with the synced
  // watermarks moved. kFull changes nothing. A failed flush (kIOError) ends all writing until the
  // store is reopened. kCorruption: a bucket has lost staged records; all other buckets are synced.
  Status Sync() { return syncer_.Sync(); }

  // Reads records, and attaches and detaches listeners. Const: it changes no record.
  const LogReader& reader() const { return reader_; }

  // Records acknowledged so far, overwritten ones and tombstones included.
  uint64_t RecordCount(uint32_t bucket) const { return context_.buckets[bucket].RecordCount(); }
  // The sum over all buckets.
  uint64_t RecordCount() const;
  // Appended records below this sequence number have their values in the value log for good. Later
  // ones may have them there too.
  uint64_t LoggedValueWatermark(uint32_t bucket) const {
    return context_.buckets[bucket].LoggedValueWatermark();
  }
  LoggedSlots Logged(uint32_t bucket) const { return context_.buckets[bucket].Logged(); }
  // No slot of the bucket from this one on holds a record.
  uint64_t SlotEnd(uint32_t bucket) const { return context_.buckets[bucket].SlotEnd(); }
  // Changes before slots of the bucket are given to other records. A reader calls it before it
  // looks a slot up. After it has read the slot it asks IsReused. If not, it has read that record.
  uint64_t ReuseCount(uint32_t bucket) const { return context_.buckets[bucket].ReuseCount(); }
  // Whether one of these slots may have been given to another record since the bucket had that
  // ReuseCount. With Options::follow the writer's rows tell, and if so the bucket is brought up to
  // date. The slots ascend; only then they are looked at. *failure: why the bucket could not be
  // brought up to date. Another attempt would find the same slots.
  bool IsReused(uint32_t bucket, std::span<const uint64_t> slots, uint64_t reuse_count,
                Status* failure) const {
    return follower_ == nullptr ? ReuseCount(bucket) != reuse_count
                                : follower_->IsReused(bucket, slots, reuse_count, failure);
  }
  // Whether another process may write the store: Options::follow. No view keeps slots from it.
  bool follows() const { return follower_ != nullptr; }
  // The kIOError of a reader that gives up: its slots were used again at each reading.
  static Status Outrun();
  // See Follower, both. kNotSupported without Options::follow.
  Status Refresh(std::vector<uint32_t>* reset);
  Status ConfirmDamage(uint32_t bucket) const {
    return follower_ == nullptr ? Status::Ok() : follower_->ConfirmDamage(bucket);
  }
  // How far the bucket is. Under its lock: for listeners, and within WithBucketLocked.
  BucketMoment LockedMomentOf(uint32_t bucket) const {
    const Bucket& state = context_.buckets[bucket];
    return {state.record_count, state.table.births()};
  }
  // Makes durable what the file of rows says, if there is one. A failure ends all writing.
  Status FlushRows();
  // Whether the bucket has rows: its slots are not its records' sequence numbers any more.
  bool HasRows(uint32_t bucket) const { return context_.buckets[bucket].HasRows(); }

  // How many records each bucket has at one moment, and the rows that hold them: see log_cut.h.
  Status TakeCut(std::vector<uint64_t>* record_counts, std::vector<SlotTable>* tables = nullptr) {
    return engine_race::TakeCut(&context_, record_counts, tables);
  }

  // Ok, or the failure that has ended writing. A record that was copied may never be durable then.
  // So a copy of the open store asks once its view or cut is taken, and before it is finished. Ok
  // in a store that is open for reading only: it has no records but those that it was opened with.
  Status CheckNoFailure() const;

  // Whether the store has noted that backup: see NoteBackup.
  bool HasNoted(uint64_t backup_id) const;
  // Notes in the manifest that a backup was made of this store. All records that it has must be
  // synced. A store that is put back to an older state has no note of it. `parent_id`, unless it is
  // 0, is noted anew, because the oldest note goes first.
  Status NoteBackup(uint64_t backup_id, uint64_t parent_id);

  // While the pins are there, every record stays where it is, also in rows that are freed
  // meanwhile.
  std::vector<CutPin> PinRows();

  // Where the logs of a bucket lie.
  const SlotFiles& slots() const { return context_.files.slots; }
  const StoreFiles& files() const { return context_.files; }
  // 1 when the values lie in the store's own directory.
  uint32_t path_count() const { return static_cast<uint32_t>(slots().paths().size()); }
  Status VisitProbeFiles(const std::function<Status(const io::File& file)>& visit) const {
    return engine_race::VisitProbeFiles(context_.files, visit);
  }

  // True when the counts of the bucket failed their check at Open. Nothing is known of it then:
  // reads, ranges over it and appends answer kCorruption.
  bool BucketDamaged(uint32_t bucket) const { return context_.buckets[bucket].damaged; }

  // Of one bucket: records that are known to outlive power loss.
  uint64_t SyncedWatermark(uint32_t bucket) const { return syncer_.SyncedWatermark(bucket); }
  // Calls of fdatasync in this opening, and writes that were acknowledged as durable.
  uint64_t flush_count() const { return syncer_.flush_count(); }
  uint64_t durable_write_count() const { return syncer_.durable_write_count(); }
  // Batches that wait for others in SyncMode::kGroup, to be written together.
  size_t waiting_batch_count() const { return queue_.waiting_count(); }
  // Bytes that this opening has written to the logs and the journal.
  uint64_t written_bytes() const { return syncer_.written_bytes(); }
  // Latencies of writes of full groups, and of flushes of log files and of the journal.
  LatencyHistogram group_write_latencies() const { return context_.group_writes.Snapshot(); }
  LatencyHistogram flush_latencies() const { return context_.flushes.Snapshot(); }

  // Tells `listener` of groups of entries from now on; null: no listener. To be called while no
  // thread appends.
  void set_key_group_listener(KeyGroupListener* listener) {
    context_.key_group_listener.store(listener, std::memory_order_release);
  }

  // The space that deletions and moves have on a full disk.
  SpaceReserve& reserve() { return context_.reserve; }

  // For reclaim: gives the space of the bucket's staging back to the file system, if all of its
  // records are synced. The next writes take space again.
  void GiveBackStaging(uint32_t bucket) noexcept;
  // For reclaim: a record count of the bucket that is kept beside its counts. CleanAt: as the last
  // opening has left it; 0: not known. A power loss may take it.
  uint64_t CleanAt(uint32_t bucket) const { return context_.buckets[bucket].found_clean_at; }
  Status KeepCleanAt(uint32_t bucket, uint64_t record_count) noexcept;

  // Moves records, and frees and releases slots.
  RowMover& mover() { return mover_; }
  const RowMover& mover() const { return mover_; }

  // Bytes of mapped staging that this opening holds at most.
  uint64_t memory_bytes() const { return context_.staging.memory_bytes(); }
  // False: records are staged with pwrite, see Options::staging_mode.
  bool staging_mapped() const { return context_.staging.mapped(); }

 private:
  BucketLog(const Options& options, StoreFiles files, const numa::StorePlacement& placement);
  enum class Opening { kWriting, kReading, kReadingUndoubted, kRecovering, kFollowing };
  static Status OpenAs(Opening opening, const Options& options, const std::string& dir,
                       std::unique_ptr<BucketLog>* log);
  static Status OpenPlaced(Opening opening, const Options& options, const std::string& dir,
                           numa::StorePlacement* placement, std::unique_ptr<BucketLog>* log);
  static Status OpenFollowing(const Options& options, const std::string& dir,
                              std::unique_ptr<BucketLog>* log);
  Status Follow(const DirectoryLock::Sight& sight, const std::string& dir, Recovery* recovery);
  static Status RecoverToRead(const Options& options, const std::string& dir);
  static Status OpenRecovered(const Options& options, const std::string& dir,
                              std::unique_ptr<BucketLog>* log);

  LogContext context_;  // first: the others work on it
  LogWriter writer_;
  GroupWriter groups_;
  BatchWriter batches_;
  BatchQueue queue_;
  LogReader reader_;
  Syncer syncer_;
  LargeBatches large_batches_;
  RowMover mover_;
  mutable io::FailedBackends failed_backends_;
  std::unique_ptr<Follower> follower_;  // null without Options::follow
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_LOG_H_
