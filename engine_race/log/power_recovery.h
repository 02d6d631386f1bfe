// The part of Open for counts that may not be the truth: see doubt.h and what recovery.h verifies.
//
// Nothing past a bucket's synced watermark is trusted then. A record past it is written to the logs
// if it verifies, from wherever a copy of it survived. The bucket ends at the first slot without
// such a record. The index's coverage past that end is voided. Entries that may lie behind the end
// are made unreadable: a later power loss could bring them back among records written since. Only
// then, and durably, the counts are set. Until they are, doing all of this again gives the same
// result. So a mark in the counts of the first bucket shows the doubt, durably, before all of this.
// It goes when all other counts are set, durably.
//
// Thread safety: none; runs before any other thread knows the log, with worker threads of its own.
#ifndef ENGINE_RACE_LOG_POWER_RECOVERY_H_
#define ENGINE_RACE_LOG_POWER_RECOVERY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"

namespace engine_race {

// Decides on the moving rows: those whose records all verify are moved ones, and the others are
// free. Records of the others are still where they were moved from.
Status SettleMovedRows(const StoreFiles& files, uint32_t bucket, SlotTable* table);
// Drops the rows whose runs begin behind the bucket's end. Drops rows of records that were moved
// when the bucket had more records: records that are yet to be written may get their numbers. Such
// a move was not settled, so the other records of the row are still where they were. The row of the
// last synced record keeps its run, even if it holds nothing: the counts on disk need it.
void CutRows(uint64_t cut, uint64_t synced_watermark, SlotTable* table);

// *readable: readers find every record of `buckets` past the synced watermarks, and neither logs
// nor journal hold others. The tables of *states are then settled, and cut at their counts. An
// error is one of reading.
Status AreAllReadable(const StoreFiles& files, const Staging& staging, const JournalReplay& journal,
                      const std::vector<uint32_t>& buckets, std::vector<BucketState>* states,
                      bool* readable);

class PowerRecovery {
 public:
  // Works on all three, which outlive it. The context's buckets are not looked at.
  PowerRecovery(LogContext* context, LogWriter* writer, const JournalReplay& journal)
      : context_(*context), writer_(*writer), journal_(journal) {}

  // Repairs the logs from what survived and sets `states`, and the counts, to what the logs hold
  // then. *readable, after a failure: nothing could be changed, and readers find all records
  // without a change.
  Status Run(uint32_t page_cache_id, std::vector<BucketState>* states, bool* readable);

 private:
  Status MarkDoubt(const std::vector<uint32_t>& doubtful);
  Status RepairLogs(std::vector<BucketState>* states, const std::vector<uint32_t>& buckets,
                    std::vector<uint64_t>* cuts);
  Status WriteRows(uint32_t bucket, const SlotTable& table, size_t row_end);
  Status RepairLog(uint32_t bucket, const BucketState& state, SlotTable* table, uint64_t* cut);
  Status SettleTails(uint32_t page_cache_id, const std::vector<uint32_t>& doubtful,
                     const std::vector<uint64_t>& cuts, std::vector<BucketState>* states);

  LogContext& context_;
  LogWriter& writer_;
  const JournalReplay& journal_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_POWER_RECOVERY_H_
