// The bucket logs of one store: key and value files, staging, counts, and what Open and recovery do
// with them. The room's front page.
//
// A bucket's records are numbered by slot, 0 upwards. Record i has its key entry at entry i of the
// bucket's key region and its value at place i of its value region. New records are copied into
// the bucket's staging group, which lies in a file that the kernel holds and so outlives the
// process; a full group goes to the log with one direct write by the thread that filled it, while
// the bucket takes further records into another place.
//
// Thread safety: every call, from any thread, at any time between Open and the destructor.
#ifndef ENGINE_RACE_LOG_BUCKET_LOG_H_
#define ENGINE_RACE_LOG_BUCKET_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/bucket.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/journal.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class JournalReplay;

// Told about each new record of a bucket once CutBucket has asked for it; the calls come under the
// bucket's lock, in the order of sequence numbers. The index implements it.
class AppendListener {
 public:
  virtual ~AppendListener() = default;
  // Called before anything of a write is visible: makes room, or refuses the write.
  virtual Status Prepare(uint32_t bucket) = 0;
  // Called once the record is staged and counted, before the write is acknowledged.
  virtual void OnAppend(uint32_t bucket, const KeyRecord& record) noexcept = 0;
};

// What one bucket held when it was cut.
struct BucketCut {
  uint64_t record_count = 0;
  // Entries [0, flushed_key_count) are to be read from the key log.
  uint64_t flushed_key_count = 0;
  // Entries [flushed_key_count, record_count).
  std::vector<format::KeyEntry> staged_keys;
  // Sequence numbers of the bucket are below this.
  uint64_t sequence_bound = 0;
};

class BucketLog {
 public:
  // Opens the store in `dir`, made when missing, recovers it and holds its lock.
  static Status Open(const Options& options, const std::string& dir,
                     std::unique_ptr<BucketLog>* log);

  // Partial groups stay staged; the next opening goes on with them. Syncs first when the options
  // say so.
  ~BucketLog();

  const Geometry& geometry() const { return files_.identity.geometry; }
  uint64_t store_id() const { return files_.identity.store_id; }
  EntryCodec codec(uint32_t bucket) const { return EntryCodec(store_id(), bucket); }

  // Appends one record; `value` is null for a tombstone. kFull, kIOError, kCorruption (the
  // bucket's counts are damaged, or it has lost staged records) or what the listener's Prepare
  // said. A record whose append failed may or may not be there later.
  Status Append(uint64_t key, const char* value);

  // Makes every record acknowledged before the call durable, in the logs and the synced counts.
  // kFull changes nothing. A failed flush (kIOError) ends all writing until the store is reopened.
  // kCorruption: a bucket has lost staged records; all other buckets are synced.
  Status Sync();

  // Hands the bucket's state over to `listener`, which hears of every later record until it is
  // detached. One listener a bucket.
  Status CutBucket(uint32_t bucket, AppendListener* listener, BucketCut* cut);
  void DetachListener(uint32_t bucket);

  // Records acknowledged so far, overwritten ones and tombstones included.
  uint64_t RecordCount(uint32_t bucket) const {
    // Acquire pairs with the release in Stage: the records counted are staged.
    return buckets_[bucket].published_count.load(std::memory_order_acquire);
  }
  // Slots below this have their values in the value log for good. Others may have them there too.
  uint64_t FlushedValueCount(uint32_t bucket) const {
    // Acquire pairs with the release in FinishWrite: the group's write has completed.
    return buckets_[bucket].published_flushed_values.load(std::memory_order_acquire);
  }

  // Where the logs of a bucket lie.
  const io::File& KeyFile(uint32_t bucket) const { return files_.KeyFile(bucket); }
  uint64_t KeyOffset(uint32_t bucket, uint64_t slot) const {
    return geometry().KeyOffset(bucket, slot);
  }
  ValuePlace LocateValue(uint32_t bucket, uint64_t slot) const {
    return files_.values.Locate(bucket, slot);
  }
  // All the value files, and on how many paths: 1 when they lie in the store's own directory.
  const ValueFiles& values() const { return files_.values; }
  Status VisitProbeFiles(const std::function<Status(const io::File& file)>& visit) const {
    return engine_race::VisitProbeFiles(files_, visit);
  }
  uint32_t path_count() const { return static_cast<uint32_t>(files_.values.paths().size()); }

  // Reads the value of an acknowledged slot, staged or not, into `buffer` (kValueBytes, aligned to
  // kIoAlignment). Not verified.
  Status ReadValue(uint32_t bucket, uint64_t slot, char* buffer) const;

  // What to say of a value that differs from its checksum, and of one whose place on a device is
  // lost, naming file, bucket and slot.
  Status CorruptValue(uint32_t bucket, uint64_t slot) const;
  // CorruptValue if `value`, read from there, is not the one that `value_sum` was taken of.
  Status VerifyValue(uint32_t bucket, uint64_t slot, uint32_t value_sum, const char* value) const {
    if (ValueMatches(value, value_sum)) [[likely]] {
      return Status::Ok();
    }
    return CorruptValue(bucket, slot);
  }
  Status LostValue(uint32_t bucket, uint64_t slot) const;

  // True when the counts of the bucket failed their check at Open. Nothing is known of it then:
  // reads, ranges over it and appends answer kCorruption.
  bool BucketDamaged(uint32_t bucket) const { return buckets_[bucket].damaged; }

  // Of one bucket: records that are known to outlive power loss.
  uint64_t SyncedCount(uint32_t bucket) const;
  // Calls of fdatasync in this opening, and writes that were acknowledged as durable.
  uint64_t flush_count() const;
  uint64_t durable_write_count() const;

  // Bytes of mapped staging that this opening holds at most.
  uint64_t memory_bytes() const { return staging_.memory_bytes(); }
  // False: records are staged with pwrite, see Options::staging_mode.
  bool staging_mapped() const { return staging_.mapped(); }

 private:
  enum class LaneKind { kValues, kKeys };
  struct FullGroup {
    LaneKind lane = LaneKind::kValues;
    uint64_t group = 0;
    uint32_t place = 0;
  };

  BucketLog(const Options& options, StoreFiles files);

  Status EnsureJournal(Journal** journal);
  Status OpenJournal();
  Status Recover();
  Status CheckStagingToWrite(const char** doubt);
  Status RecoverInDoubt(const char* doubt, const JournalReplay& journal,
                        std::vector<BucketState>* states);
  Status RecoverFromPowerLoss(uint32_t page_cache_id, const JournalReplay& journal,
                              std::vector<BucketState>* states, bool* readable);
  Status RepairLogs(const JournalReplay& journal, const std::vector<BucketState>& states,
                    const std::vector<uint32_t>& buckets, std::vector<uint64_t>* cuts);
  Status SettleTails(uint32_t page_cache_id, const std::vector<uint32_t>& doubtful,
                     const std::vector<uint64_t>& cuts, const JournalReplay& journal,
                     std::vector<BucketState>* states);
  void AdoptState(uint32_t bucket, const BucketState& state);
  Status VerifyStaging(uint32_t bucket, bool* verified) const;
  Status RequireVerifiedStaging(uint32_t bucket);
  void WriteFullGroups(uint32_t bucket);
  Status RecoverLane(uint32_t bucket, LaneKind kind);
  Status RefuseBadBucket(uint32_t bucket) const;
  Status MendStagedKeys(uint32_t bucket, BucketCut* cut) const;
  std::string NameOfValue(uint32_t bucket, uint64_t slot) const;
  Status MakeRoom(uint32_t bucket, std::unique_lock<std::mutex>* lock);
  Status ReserveNextPlace(uint32_t bucket, bool* must_wait);
  Status Stage(uint32_t bucket, uint64_t key, const char* value, format::JournalDescriptor* staged);
  Status StageIn(uint32_t value_place, uint32_t key_place, const char* value,
                 const format::JournalDescriptor& record);
  Status WriteIdleGroups(uint32_t bucket, std::unique_lock<std::mutex>* lock);
  Status WriteGroup(uint32_t bucket, const FullGroup& full);
  Status FinishWrite(uint32_t bucket, const FullGroup& full, Status written) noexcept;
  bool FindIdleGroup(const Bucket& bucket, FullGroup* full) const;
  Lane& LaneOf(Bucket* bucket, LaneKind kind) const {
    return kind == LaneKind::kValues ? bucket->values : bucket->keys;
  }
  void ReserveLog(uint32_t bucket, LaneKind kind, uint64_t begin_bytes, uint64_t end_bytes);
  Status Checkpoint() noexcept;
  Status SyncAll();
  Status SyncBucket(uint32_t bucket, uint64_t* target);
  Status WritePartialGroup(uint32_t bucket, LaneKind kind, uint64_t target,
                           std::unique_lock<std::mutex>* lock);
  Status WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, const void* data);
  Status WriteKeys(uint32_t bucket, uint64_t offset, uint64_t size_bytes, const void* data);
  Status FlushLogs();
  Status Flush(const io::File& file) noexcept;
  Status PoisonUnlessFlushed(const Status& flushed) noexcept;
  void Poison(const Status& status) noexcept;
  void PutInDoubt() noexcept;
  void LatchIfLasting(const Status& failure) noexcept;
  void Latch(const Status& status) noexcept;
  Status LatchedStatus() const;

  const Options options_;
  // Before everything that refers into it. Changed by recovery alone.
  StoreFiles files_;
  Staging staging_;
  // Reading a staged record takes the lock and a pin.
  mutable std::vector<Bucket> buckets_;
  // A write error other than a full disk ends all writing until the store is reopened.
  std::atomic<bool> latched_{false};
  mutable std::mutex latch_mutex_;
  Status latch_status_;  // under latch_mutex_; Ok while latched: there was no memory for words

  // One Sync at a time; those that wait meanwhile share the next one.
  std::mutex sync_mutex_;
  std::atomic<uint64_t> sync_requests_{0};
  uint64_t sync_covered_ = 0;  // requests up to this one are served; under sync_mutex_
  // Log files, the key files before the value files, that have been written to since their last
  // flush.
  std::vector<std::atomic<bool>> dirty_files_;
  std::atomic<uint64_t> flush_count_{0};
  std::mutex journal_mutex_;
  std::atomic<Journal*> ready_journal_{nullptr};
  // Null in SyncMode::kNone; under journal_mutex_ until it is ready. Last: its thread calls Sync.
  std::unique_ptr<Journal> journal_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_LOG_H_
