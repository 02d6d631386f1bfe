// Batches that do not fit into staging, or not into the journal.
//
// Such a batch holds all of its buckets, and makes durable what they have. Its records are written
// to their slots in the logs, past the counts, where they are nothing yet, and are flushed. A full
// disk refuses the batch there. Then one intent with the new counts, flushed too, commits all of it
// (batch_intents.h). The counts and the synced watermarks follow. So a large batch is durable in
// every sync mode. After any kill and any power loss it is there as a whole or not at all.
//
// The entries of its records say that they came with a large batch. Recovery takes no such record
// at or above a synced watermark. So what a batch that was not committed has left in the logs never
// counts, also among records that were written since.
//
// Thread safety: every call from any thread. One batch at a time is written.
#ifndef ENGINE_RACE_LOG_LARGE_BATCHES_H_
#define ENGINE_RACE_LOG_LARGE_BATCHES_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/batch_writer.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"
#include "engine_race/log/syncer.h"

namespace engine_race {

class LargeBatches {
 public:
  // Works on all of them, which outlive it.
  LargeBatches(LogContext* context, LogWriter* writer, GroupWriter* groups, BatchWriter* batches,
               Syncer* syncer)
      : context_(*context),
        writer_(*writer),
        groups_(*groups),
        batches_(*batches),
        syncer_(*syncer) {}

  // Answers as BucketLog::Write. Ok: the records are durable.
  Status Write(std::span<const WriteBatch::Record> records);
  // Whether one is being written, or waits for that. It may hold buckets for long.
  bool any_under_way() const {
    // Relaxed: advice.
    return under_way_count_.load(std::memory_order_relaxed) != 0;
  }

 private:
  Status WriteHeld(const BatchPlan& plan, bool* may_be_committed);
  Status AwaitIdle(const BatchPart& part);
  Status WriteRecords(const BatchPlan& plan);
  Status WritePiece(const BatchPlan& plan, const BatchPart& part, uint32_t item, uint32_t end,
                    char* values);
  Status Commit(const BatchPlan& plan, bool* may_be_committed);
  void CountAll(const BatchPlan& plan) noexcept;
  void Count(const BatchPlan& plan, const BatchPart& part) noexcept;
  void TellOfGroups(const BatchPlan& plan, const BatchPart& part) noexcept;
  void Discard(const BatchPlan& plan) noexcept;

  LogContext& context_;
  LogWriter& writer_;
  GroupWriter& groups_;
  BatchWriter& batches_;
  Syncer& syncer_;
  std::mutex mutex_;  // held while a batch is written
  std::atomic<uint32_t> under_way_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LARGE_BATCHES_H_
