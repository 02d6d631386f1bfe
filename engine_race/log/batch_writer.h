// Writes a WriteBatch: all of its records, in all of their buckets, or none.
//
// The batch holds its buckets (batch_holds.h) and stages its records past their counts, where they
// are nothing yet. A full disk refuses the batch there. An intent (batch_intents.h) then commits
// all records with one store, and the counts follow. In the durable sync modes a chain of the
// journal (journal.h) commits them before that. After a power loss they are all found in the
// journal, or none of them counts. After a kill the intent is then a short cut: without it recovery
// compares all buckets with the journal. A batch that is committed is acknowledged, whatever
// becomes of its counts. Sync takes its counts while none of a batch's counts moves (batch_gate.h),
// and views are taken while the index is told of no batch (append_listener.h).
//
// A batch that does not fit into staging, or not into the journal, is written straight to the logs:
// see large_batches.h.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_LOG_BATCH_WRITER_H_
#define ENGINE_RACE_LOG_BATCH_WRITER_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/batch_format.h"
#include "engine_race/log/batch_intents.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/journal.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

// Memory of a batch that is being written. Kept for the next one.
struct BatchScratch {
  BatchPlan plan;
  std::vector<JournalRecord> chain;
  std::vector<format::BatchIntentEntry> entries;
};

// Tells the listeners of the parts that a batch begins, and at last that it ends.
class TellingOfBatch {
 public:
  explicit TellingOfBatch(std::span<const BatchPart> parts) : parts_(parts) {
    Visit([](AppendListener* listener) { listener->BeginBatch(); });
  }
  TellingOfBatch(const TellingOfBatch&) = delete;
  TellingOfBatch& operator=(const TellingOfBatch&) = delete;
  ~TellingOfBatch() {
    Visit([](AppendListener* listener) { listener->EndBatch(); });
  }

 private:
  // Buckets usually have one listener in common.
  template <typename VisitFn>
  void Visit(const VisitFn& visit) {
    AppendListener* last = nullptr;
    for (const BatchPart& part : parts_) {
      if (part.listener == nullptr || part.listener == last) continue;
      last = part.listener;
      visit(last);
    }
  }

  const std::span<const BatchPart> parts_;
};

// Under the bucket's lock: tells the part's listener of its records, in their slots.
void TellOfRecords(const BatchPlan& plan, const BatchPart& part, const SlotTable& table) noexcept;

class BatchWriter {
 public:
  // More records are a large batch.
  static constexpr uint64_t kMaxStagedRecords = 4096;
  static_assert(kMaxStagedRecords <= format::kBatchIntentEntries);

  // Works on both, which outlive it.
  BatchWriter(LogContext* context, GroupWriter* groups);

  // Answers like an append. Ok: all records are acknowledged; with a journal they are durable. Also
  // Ok, and nothing was done, when *too_large. After a failure none of them is seen by any read.
  // After one that has latched the next opening may find all of them. Throws nothing once a record
  // is counted.
  Status Write(std::span<const WriteBatch::Record> records, Journal* journal, bool* too_large);

  // For large batches as well: everything before the buckets are held. kInvalidArgument for more
  // than BatchPlan::kMaxRecords.
  Status Prepare(std::span<const WriteBatch::Record> records, BatchPlan* plan);
  // Open once Prepare has succeeded.
  BatchIntents& intents() { return intents_; }

 private:
  Status EnsureReady();
  Status Stage(const BatchPlan& plan, const BatchPart& part);
  Status Count(const BatchPlan& plan, BatchPart* part, bool must_count) noexcept;
  void WriteFullGroups(std::span<BatchPart> parts);
  Status WriteStaged(BatchScratch* scratch, Journal* journal, bool* too_large);
  Status WriteChain(BatchScratch* scratch, Journal* journal, uint32_t* half);
  void PrefetchPart(const BatchPart& part) const;
  Status StageAll(const BatchPlan& plan);
  Status Publish(BatchScratch* scratch, bool committed);
  std::unique_ptr<BatchScratch> TakeScratch();
  void KeepScratch(std::unique_ptr<BatchScratch> scratch);

  // Groups of one kind: their size is a power of two.
  struct Groups {
    explicit Groups(uint64_t records)
        : shift(static_cast<uint32_t>(std::countr_zero(records))), mask(records - 1) {}
    uint64_t GroupOf(uint64_t slot) const { return slot >> shift; }
    uint64_t IndexOf(uint64_t slot) const { return slot & mask; }

    uint32_t shift;
    uint64_t mask;
  };

  LogContext& context_;
  GroupWriter& groups_;
  const Groups values_;
  const Groups keys_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<BatchScratch>> kept_;  // under mutex_
  std::mutex ready_mutex_;
  std::atomic<bool> ready_{false};
  BatchIntents intents_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BATCH_WRITER_H_
