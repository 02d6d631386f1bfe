// The commit journal: makes single writes durable at the price of one sequential write and one
// fdatasync for all writers that wait together.
//
// A writer enqueues its record under its bucket's lock and then waits without the lock. So the
// records of a bucket stand in the journal in the order of their slots. The writer that enqueues
// the first record of a batch leads it. When the batch before is durable, the leader gathers all
// records that have come by then, writes them as one batch and flushes. Meanwhile the next batch
// fills.
//
// The records of a WriteBatch are a chain: journal batches of their own, in one half, that count
// together or not at all. A chain is written before its records are counted. So until its writer
// says that they are, no checkpoint may free the half.
//
// The journal only has to bring records back after a power loss that are not durable in the logs.
// It has two halves. When one is full, writing goes on in the other, and the journal's thread calls
// the checkpoint. Then the logs hold all records of the full half, and it can be used again.
//
// Thread safety: Enqueue and Await from any thread.
// Owner of its file and of its thread. Invariants: batches become durable in the order of their
// numbers; a half is begun anew only when the logs hold everything in it.
#ifndef ENGINE_RACE_LOG_JOURNAL_H_
#define ENGINE_RACE_LOG_JOURNAL_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/latency_recorder.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/format.h"
#include "engine_race/log/journal_layout.h"
#include "engine_race/log/store_ids.h"

namespace engine_race {

// A record on its way into the journal.
struct JournalRecord {
  format::JournalDescriptor descriptor;
  const char* value = nullptr;  // null for a tombstone
};

// The record of a single write. Its writer keeps it from Enqueue until Await returns.
struct JournalRequest : JournalRecord {
  // These are the journal's own.
  JournalRequest* next = nullptr;
  uint32_t batch = 0;
  bool leads = false;
  Status status;
};

class Journal {
 public:
  struct Callbacks {
    // Makes durable in the logs every record enqueued before the call.
    std::function<Status()> checkpoint;
    // Told once of a failure after which nothing may be written until the store is reopened.
    std::function<void(const Status&)> on_failure;
    // Called first by the journal's thread. May be empty.
    std::function<void()> on_thread_start;
    // Gets how long flushes take. May be null.
    LatencyRecorder* flushes = nullptr;
  };

  // Begins a new journal of `size_bytes` in the store's directory, made with `file_mode`; what an
  // earlier one held must be durable in the logs. Batches take at most `batch_records` records, and
  // their buffer lies as `memory` says.
  static Status Open(int dir_fd, const StoreIds& ids, uint32_t value_bytes, uint64_t size_bytes,
                     mode_t file_mode, uint32_t batch_records, const Placement& memory,
                     Callbacks callbacks, std::unique_ptr<Journal>* journal);
  // Nobody may wait any more.
  ~Journal();

  void Enqueue(JournalRequest* request);
  // Ok once the record is durable: in the journal, or in the logs where the journal has no room.
  // kFull and kOutOfMemory: neither has room. They leave the journal usable; what is kIOError is
  // final.
  Status Await(JournalRequest* request);

  // Whether a chain of these counts fits into the journal.
  bool ChainFits(uint64_t record_count, uint64_t value_count) const {
    return layout_.ChainBytes(record_count, value_count) <= half_bytes_;
  }
  // Makes the records durable as one chain, behind all that was enqueued before. Buckets of the
  // chain take no other record from before the call until its records are counted. Ok: *half is
  // what SettleChain must be told once the records are counted, or once nothing is written any
  // more. After a failure none of them will be there, unless it was kIOError, which is final.
  Status WriteChain(std::span<const JournalRecord> records, uint32_t* half);
  void SettleChain(uint32_t half);

  // Whether a batch was lost to a full disk or refused memory, in the journal and in the logs. Its
  // records are staged. No later record may be acknowledged before a checkpoint has made them
  // durable. A writer that syncs first need not append what would not become durable either.
  bool must_checkpoint() const {
    // Relaxed: advice. The thread that commits a batch looks again.
    return must_checkpoint_.load(std::memory_order_relaxed);
  }

  // Relaxed, all: statistics.
  uint64_t flush_count() const { return flush_count_.load(std::memory_order_relaxed); }
  uint64_t durable_record_count() const { return record_count_.load(std::memory_order_relaxed); }
  uint64_t written_bytes() const { return written_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kDoneWords = 64;

  using RecordOfFn = FunctionRef<const JournalRecord&(uint64_t i)>;

  Journal(const StoreIds& ids, uint32_t value_bytes, uint64_t half_bytes, uint32_t batch_records,
          const Placement& memory, Callbacks callbacks)
      : ids_(ids),
        layout_(value_bytes),
        half_bytes_(half_bytes),
        batch_records_(layout_.MostRecords(batch_records)),
        memory_(memory),
        callbacks_(std::move(callbacks)) {}

  Status Prepare(int dir_fd, uint64_t size_bytes, mode_t file_mode);
  Status EnsureBuffer(uint64_t record_count);
  std::atomic<uint32_t>& DoneWord(uint32_t batch) { return done_[batch % kDoneWords]; }
  void AwaitDone(uint32_t batch);
  void LeadBatch(uint32_t batch);
  void EndBatch(uint32_t batch);
  Status Commit();
  Status Checkpoint();
  Status CommitChain(std::span<const JournalRecord> records, uint32_t* half);
  // Writes `count` records durably: as a chain, or as one batch of single ones.
  Status Write(uint64_t count, bool is_chain, RecordOfFn record_of);
  // Puts the records [begin, end) into the buffer, as a batch with this header. Returns its bytes.
  uint64_t PutBatch(uint64_t begin, uint64_t end, RecordOfFn record_of,
                    format::JournalHeader header);
  // Writes nothing more where the failure is final.
  Status NoteFailure(Status status);
  Status Flush();
  Status MakeRoom(uint64_t bytes);
  Status BeginHalf(uint32_t half);
  void RunCheckpoints();

  const StoreIds ids_;
  const JournalLayout layout_;
  const uint64_t half_bytes_;
  const uint32_t batch_records_;
  const Placement memory_;
  const Callbacks callbacks_;
  io::File file_;

  // The queue of records that no leader has taken.
  std::mutex mutex_;
  JournalRequest* first_ = nullptr;
  JournalRequest** last_ = &first_;
  uint32_t filling_batch_ = 1;
  uint32_t filling_count_ = 0;
  // In word i: the highest batch that has ended, of those whose number modulo kDoneWords is i.
  std::array<std::atomic<uint32_t>, kDoneWords> done_{};

  // Only the leader of a batch looks at these.
  std::vector<JournalRequest*> taken_;
  Region buffer_;  // one batch
  uint32_t half_ = 0;
  uint64_t offset_ = 0;
  uint64_t generation_ = 0;
  uint32_t number_ = 0;
  Status failure_;
  // Changed by leaders alone. The release and acquire of a done word order them.
  std::atomic<bool> must_checkpoint_{false};

  std::mutex checkpoint_mutex_;
  std::condition_variable checkpoint_changed_;
  // Under checkpoint_mutex_.
  std::array<bool, format::kJournalHalves> busy_{};           // not yet durable in the logs
  std::array<uint32_t, format::kJournalHalves> unsettled_{};  // chains that are not counted yet
  bool checkpoint_wanted_ = false;
  Status checkpoint_status_;
  bool stop_ = false;
  std::thread checkpointer_;

  std::atomic<uint64_t> flush_count_{0};
  std::atomic<uint64_t> record_count_{0};
  std::atomic<uint64_t> written_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_JOURNAL_H_
