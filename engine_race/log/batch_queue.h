// Joins batches that wait for each other, so that they share a flush: in SyncMode::kGroup.
//
// The journal flushes each chain by itself, and a batch holds its buckets until its chain is
// durable. So batches of several threads are written one after the other, or as one. The thread
// whose batch came first leads. It joins the batches that wait by then, in the order in which they
// came, and writes them as a single batch. Meanwhile the next ones gather. A joined batch is
// durable as a whole, and later entries of a key win.
//
// Where the joined batch does not fit or is refused, nothing of it was appended. Each half of the
// batches is then tried by itself. So at last every batch gets the answer that is its own.
//
// Thread safety: every call from any thread. Invariant: one thread leads at a time.
#ifndef ENGINE_RACE_LOG_BATCH_QUEUE_H_
#define ENGINE_RACE_LOG_BATCH_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/batch_writer.h"
#include "engine_race/log/journal.h"

namespace engine_race {

class BatchQueue {
 public:
  // Writes through `batches`, which outlives it.
  explicit BatchQueue(BatchWriter* batches) : batches_(*batches) {}

  // As BatchWriter::Write, with a journal.
  Status Write(std::span<const WriteBatch::Record> records, Journal* journal, bool* too_large);

  // How many batches wait for a leader.
  size_t waiting_count() const;

 private:
  // A batch on its way. Lives with its thread, which waits until it is done.
  struct Waiting {
    std::span<const WriteBatch::Record> records;
    Waiting* next = nullptr;
    Status status;
    bool too_large = false;
    bool done = false;
  };

  void Lead(Journal* journal, std::unique_lock<std::mutex>* lock) noexcept;
  void WriteJoined(std::span<Waiting* const> joined, Journal* journal) noexcept;

  BatchWriter& batches_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_: those that no leader has taken, in the order in which they came.
  Waiting* first_ = nullptr;
  Waiting** last_ = &first_;
  bool led_ = false;
  std::vector<WriteBatch::Record> records_;  // the leader's alone: those of a joined batch
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_QUEUE_H_
