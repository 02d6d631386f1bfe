// Batches that do not fit into staging, or not into the journal.
//
// Such a batch is first written to a file of its own, durably (large_batch_file.h). Before that the
// file gets space for itself and for the records in the logs, so a full disk refuses the batch at
// once. Then the batch holds all of its buckets, and what they have is made durable. The counts
// that the buckets are to have commit it. Then its records are appended as others are, group by
// group, while the batch holds its buckets. So nothing else comes between them. An opening that
// finds the counts appends as many of the last records as a bucket lacks. At the end the file is
// emptied, durably, and the buckets are released. In the durable sync modes, or if a Sync has met
// the batch, a Sync comes before that. Views wait until all records are appended.
//
// A failure after the commit cannot be undone. It latches, and the next opening finishes the batch.
//
// Thread safety: Write from any thread, one batch at a time; Finish before any other thread knows
// the log.
#ifndef ENGINE_RACE_LOG_LARGE_BATCHES_H_
#define ENGINE_RACE_LOG_LARGE_BATCHES_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/write_batch.h"
#include "engine_race/log/batch_holds.h"
#include "engine_race/log/batch_plan.h"
#include "engine_race/log/batch_writer.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/large_batch_file.h"
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

  // Answers as BucketLog::Write.
  Status Write(std::span<const WriteBatch::Record> records);
  // Whether one is being written, or waits for that. It may hold buckets for long.
  bool any_under_way() const {
    // Relaxed: advice.
    return under_way_count_.load(std::memory_order_relaxed) != 0;
  }
  // Finishes a batch that an earlier opening has committed, and makes durable that it is none any
  // more. A failure leaves nothing to open: a part of the batch may be appended.
  Status Finish();

 private:
  Status Prepare(std::span<const WriteBatch::Record> records, const BatchPlan& plan,
                 LargeBatchFile* file);
  Status SecureLogs(const BatchPlan& plan, LargeBatchFile* file, std::vector<uint64_t>* secured);
  Status Write(LargeBatchFile* file, BatchHolds* holds, BatchPlan* plan, bool* may_be_committed);
  Status AppendAll(BatchHolds* holds, BatchPlan* plan);
  Status AppendPart(BatchHolds* holds, const BatchPlan& plan, BatchPart* part);
  Status SyncHeld();
  Status FinishBatch(const LargeBatchFile& file);
  Status LeaveOutAppended(const LargeBatchFile& file, BatchPlan* plan) const;

  LogContext& context_;
  LogWriter& writer_;
  GroupWriter& groups_;
  BatchWriter& batches_;
  Syncer& syncer_;
  std::atomic<uint32_t> under_way_count_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LARGE_BATCHES_H_
