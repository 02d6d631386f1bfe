// The C++20 door: a store with options, Delete and statuses that carry a message.
//
// Start reading here. engine_race/engine_race.h is the same store behind the contest's contract.
// Thread safety: every call from any number of threads, except the destructor, which closes the
// store. No other call may be under way then, and none of an iterator or a snapshot. Iterators and
// snapshots may outlive the store: see scan/iterator.h and scan/snapshot.h.
//
// A store belongs to the process that opened it, and so do its snapshots and iterators. In a forked
// child their calls are kInvalidArgument, Stats and Latencies are empty, nothing is logged, and
// what releases them frees nothing. None of these calls waits. A child that was forked in a
// function of the caller, such as a visitor, may not return from that function.
#ifndef ENGINE_RACE_STORE_H_
#define ENGINE_RACE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/copy_options.h"
#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/base/verify_report.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/scan/iterator.h"
#include "engine_race/scan/snapshot.h"
#include "engine_race/store_stats.h"

namespace engine_race {

// Called with the 8 bytes of a key and with its value, valid during the call. It may call the
// store; what it throws leaves Range.
using VisitFn = std::function<void(std::string_view key, std::string_view value)>;
using ReadDoneFn = std::function<void(const Status& status)>;

class Store {
 public:
  // Opens the store in `dir`, made when missing. kIOError when another opener holds it, unless
  // both are for reading only: the message names that process as far as known. kNotSupported for
  // another format version or an impossible geometry, kCorruption for a damaged or foreign
  // manifest. kInvalidArgument for options out of their range, and for a key_range or value_bytes
  // that is not the store's. A new store that would lie among other files is kInvalidArgument, too:
  // see Options::create_among_files. kNotFound for a directory without a store with
  // Options::read_only, or without create_if_missing. With Options::read_only a store that needs a
  // recovery is opened for writing first, recovered and closed. While others recover or read it,
  // Open waits for up to a minute. kIncomplete if the recovery fails.
  static Status Open(const Options& options, const std::string& dir, std::unique_ptr<Store>* store);
  // Waits for reads that were started, and writes the index: see Options::index_close_bytes.
  ~Store();

  // The size of every value: see Options::value_bytes.
  uint32_t value_bytes() const;

  // In every call a key that is not 8 bytes long, or outside of Options::key_range, is
  // kInvalidArgument. So is a value or a batch of another size than the store's.

  // The value replaces an older one under the same key. Once Ok, the record outlives the process,
  // and in a durable sync mode a power loss. kFull, kIOError, kCorruption, kOutOfMemory or
  // kInvalidArgument otherwise. A failure has written nothing, with two exceptions. In a durable
  // sync mode its message may end in "(written, but not durable)": reads see the record. After
  // kFull and kOutOfMemory it is durable once a later write or Sync is Ok. And after a failure that
  // ended writing for good, the record may be there once the store is reopened.
  Status Write(std::string_view key, std::string_view value);

  // The value is gone for every later read. Deleting what is not there succeeds. Answers as Write.
  Status Delete(std::string_view key);

  // Writes all records of a batch or none; later entries of a key win. Once Ok, all of them outlive
  // the process. They outlive a power loss in a durable sync mode, and if the batch is a large one
  // (docs/using.md). A kill at any moment leaves all records or none. So does a power loss in these
  // cases, or if a Sync begins during the call. Every later read sees all records. A read that runs
  // beside the call may see a part of them; snapshots and iterators never do. The codes of Write,
  // and kInvalidArgument for 2^32 records or more. A batch of one record is a Write. After another
  // failure no read sees any record of the batch. If the failure ended writing for good, reopening
  // the store may bring all records.
  Status Write(const WriteBatch& batch);

  // On failure *value is left as it was.
  Status Read(std::string_view key, std::string* value);

  // Reads keys[i] into values[i] and answers in statuses[i]: what Read would, each by itself, so a
  // bad key fails alone. Many reads are kept in flight from the calling thread; a thousand keys a
  // call keep a fast device busy. kInvalidArgument, and nothing is touched, when there are fewer
  // values or statuses than keys; else Ok. No key may share its value or status with another.
  // A progress function is told after each 4096 keys. Once it cancels, the keys that were not read
  // are kIncomplete, and so is the call.
  Status MultiRead(std::span<const std::string_view> keys, std::span<std::string> values,
                   std::span<Status> statuses, const ProgressFn& on_progress = {});

  // Read and MultiRead into memory of the caller: value_bytes() for each value, without gaps. A
  // key is the number that its bytes are, read big-endian. A value that is not read is left as it
  // was. kInvalidArgument when there are fewer codes than keys.
  Status ReadInto(uint64_t key, char* value);
  Status MultiReadInto(std::span<const uint64_t> keys, char* values, std::span<Code> codes,
                       const ProgressFn& on_progress = {});

  // Starts a Read and returns. `done` is called once with the result of the read; *value may be
  // used from then on. `done` and *value must live until then. One of the store's workers calls
  // `done`. ReadAsync itself calls it before it returns if no thread can be started.
  //
  // At most Options::async_read_limit reads are pending. At the limit a call waits until a `done`
  // has returned, so its caller must hold no lock that `done` takes. With Options::async_read_waits
  // off the call is kBusy instead. A call in a `done` never waits. The first one takes the place of
  // the read that has ended. Further ones are kBusy at the limit. kInvalidArgument and kBusy:
  // nothing was started.
  //
  // The worker waits for `done`. So `done` may not block, throw, or call the store except for
  // ReadAsync and Stats. With Options::numa the worker's thread, and threads that `done` starts,
  // may be bound to the CPUs of a node. The store's destructor waits for all reads that were
  // started before it, and for their `done`. Meanwhile only `done` may call ReadAsync. The answer
  // is kInvalidArgument then.
  Status ReadAsync(std::string_view key, std::string* value, ReadDoneFn done);

  // ReadAsync into value_bytes() of the caller's memory.
  Status ReadAsyncInto(uint64_t key, char* value, ReadDoneFn done);

  // Once Ok, writes acknowledged before the call outlive a power loss, in any sync mode. kFull
  // changes nothing, after kIOError writes fail until reopening, kCorruption: records were lost.
  // May also write the index: see Options::index_sync_bytes. A failure of that is only logged.
  Status Sync();

  // Of a store with Options::follow: moves on to what its writer has written. Once Ok, reads see
  // each write that was acknowledged before the call, and perhaps later ones. Of each bucket they
  // see the records below some count, which never falls. Nothing holds between buckets, and a batch
  // may be seen in part. Cheap if nothing was written. A read that finds its slot used again moves
  // its bucket on. Snapshots and iterators keep their state. Once slots were used again that they
  // may show, reads of that bucket at them are kIOError. Waits up to a minute while a writer opens
  // the store. kNotSupported without Options::follow. kIOError: the store was removed or replaced,
  // or its files cannot be read. kOutOfMemory. kIncomplete: its writer has ended while it opened
  // the store, or its counts are in doubt after a failed flush. After a failure the store shows
  // what it did before, or more.
  Status Refresh();

  // Gives back the space of overwritten and deleted records, while other calls go on. Reads the key
  // logs, and writes some live records again. Works with Options::reclaim off too, and heeds no
  // limit on the rate. Snapshots and iterators keep what they can see. Background reclaim gives
  // that back once they are released, else another Compact. Records that find no room to be
  // written again stay where they are. Syncs the store, and gives back staging. kFull: the disk has
  // no room to note which slots are free. kIOError and kCorruption as Sync, and for key logs that
  // cannot be read. A failure loses no record, nor space that was given back. A progress function
  // is told after each bucket and few MiB written again, and may not write to the store.
  // kIncomplete if it cancels.
  Status Compact(const ProgressFn& on_progress = {});

  // Visits [lower, upper) in ascending order of key. An empty bound is open on its side. Bounds
  // outside of Options::key_range are clipped.
  Status Range(std::string_view lower, std::string_view upper, const VisitFn& visit);

  // A state of the store to read at: see scan/snapshot.h. The first one waits until the index has
  // every bucket; the first Read waits for one. A snapshot that *snapshot held before is released.
  Status GetSnapshot(Snapshot* snapshot);

  // A walk over the records, both ways: see scan/iterator.h. kInvalidArgument for bounds that are
  // neither empty nor of 8 bytes, and for a snapshot of another store; *iterator is then left as it
  // was.
  Status NewIterator(const IteratorOptions& options, Iterator* iterator);

  // Read, MultiRead and Range of what a snapshot shows; kInvalidArgument when it is not taken or
  // another store's. A visitor of Range may release the snapshot. Read and MultiRead need it until
  // they return. They keep a value in memory for later reads only while it is the newest of its
  // key. A Range at a snapshot reads for itself, without a part in the pass that others share.
  Status Read(const Snapshot& snapshot, std::string_view key, std::string* value);
  Status ReadInto(const Snapshot& snapshot, uint64_t key, char* value);
  Status MultiRead(const Snapshot& snapshot, std::span<const std::string_view> keys,
                   std::span<std::string> values, std::span<Status> statuses,
                   const ProgressFn& on_progress = {});
  Status MultiReadInto(const Snapshot& snapshot, std::span<const uint64_t> keys, char* values,
                       std::span<Code> codes, const ProgressFn& on_progress = {});
  Status Range(const Snapshot& snapshot, std::string_view lower, std::string_view upper,
               const VisitFn& visit);

  // Makes a store of its own in `dir`, which must be missing or empty. It is the latest state at
  // one moment of the call, while other calls go on. It has every write that was acknowledged
  // before the call. A store whose writing has ended, by a failure before or during the call, is
  // not copied: kIOError. It has the geometry of this store and no paths, and an id of its own. It
  // is durable once this is Ok. By reflink it shares the blocks of the logs, as they are: then this
  // is a Sync and takes little time. Elsewhere it takes space for the live records alone, and up to
  // a sixteenth of the memory budget, 64 MiB at most. kInvalidArgument when `dir` holds anything,
  // kFull without space for all of it, kIncomplete when on_progress cancelled it. A failed
  // checkpoint leaves `dir` empty; only a failed last flush may leave a whole store. An interrupted
  // one leaves what no opening takes for a store, and what another checkpoint replaces.
  // If a bucket of the index must be built again meanwhile, the copy begins anew, and so does
  // on_progress. After eight such attempts it fails with kIOError.
  Status Checkpoint(const std::string& dir, const CheckpointOptions& how = {});

  // Writes a backup of the latest state at one moment of the call into `dir`, which must be missing
  // or empty. The backup is durable once this is Ok. With how.since it holds the records written
  // since that backup, and names it as its parent. Syncs the store. `report` may be null.
  //
  // kInvalidArgument when `dir` holds anything, or when the store cannot go on from `since`. It can
  // from the last 16 of its backups that were used. It cannot from a backup of another store, or of
  // a state after the one that this store was put back to. kCorruption when `since` is no whole
  // backup. It begins anew, and fails with kIOError, kFull and kIncomplete, as Checkpoint does. A
  // failed or interrupted backup leaves nothing that is taken for a backup. The next backup into
  // `dir` replaces it.
  Status Backup(const std::string& dir, const BackupOptions& how = {},
                BackupReport* report = nullptr);

  StoreStats Stats() const;
  // Of each bucket in order of key. Takes a lock of each bucket for a moment.
  Status SpaceByBucket(std::vector<BucketSpace>* buckets) const;
  // How long the calls of this opening took; empty without Options::latency_stats.
  StoreLatencies Latencies() const;

  // Reads every record of the closed store in `dir`, and compares it with its checksums, and the
  // index on disk with the key logs. Calls `on_bad` for each bad one: several threads do, one at a
  // time. It may not throw. `on_progress` is told after every MiB or so. It is told first that 0
  // records are done, and last that all are, if the store could be read to its end. Overwritten
  // records and tombstones count too. Both may be empty, and neither is called beside the other.
  // Changes nothing. Ok when all is well, kCorruption when something is bad, kIncomplete when it
  // was cancelled. Anything else: the store could not be read to its end. A key_range in the
  // options must be the store's. Here and below, options.value_bytes is ignored.
  static Status Verify(const Options& options, const std::string& dir, VerifyReport* report,
                       const BadRecordFn& on_bad, const ProgressFn& on_progress = {});

  // Copies the closed store in `from` into `to`, which must be missing or empty, verifying every
  // record on the way. Reports as Verify does. The copy takes space for its records alone, is
  // durable once this is Ok, and has an id of its own. options.paths say where its values lie. The
  // rest of its geometry is the source's. A key_range in the options must be the source's. A
  // failed, cancelled or interrupted copy leaves no store in `to`, unless only the very last flush
  // fails: then it is a whole one. kCorruption when something in `from` is bad, kInvalidArgument
  // when `to` holds anything, kFull without space for all of it, kIncomplete as Verify.
  static Status Copy(const Options& options, const std::string& from, const std::string& to,
                     VerifyReport* report, const BadRecordFn& on_bad,
                     const ProgressFn& on_progress = {});

  // Makes a store in `to`, which must be missing or empty, of the backup in `backup` and its
  // parents. A parent lies where it was when the backup was made, or beside the backup. Compares
  // all that it reads with its checksums. The store has exactly the records of the backup, the
  // geometry of the store that was backed up, and an id of its own. options.paths are ignored. It
  // is durable once this is Ok. kCorruption when a backup is damaged or unfinished, kNotFound when
  // there is none, kInvalidArgument when a parent is missing or another backup. kFull and
  // kIncomplete as in Checkpoint. `report` may be null.
  static Status Restore(const Options& options, const std::string& backup, const std::string& to,
                        BackupReport* report = nullptr, const ProgressFn& on_progress = {});

  // Reads all that a restore would read, and compares it with its checksums. Answers as Restore.
  static Status VerifyBackup(const Options& options, const std::string& backup,
                             BackupReport* report = nullptr, const ProgressFn& on_progress = {});

 private:
  Store();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_STORE_H_
