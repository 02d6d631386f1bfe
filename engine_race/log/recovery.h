// Recovery: the part of Open that takes over the counts and the staged groups that it finds.
//
// A group that was full but not yet below the logged watermark may be in the log or not. Recovery
// writes its unsynced records once more from staging. That is right either way, because its place
// has not been given away since. So recovery can be killed and begun again at any point. Partial
// groups stay where they are.
//
// Staging is verified before it is written to a log. Page caches get lost in ways that no id shows.
// Staging is then old or empty, while the log may hold the records.
//
// A store that is open for reading only is not changed. It opens if readers find all that its
// counts promise. Committed batches and moved rows are then settled in memory alone.
//
// Thread safety: none; runs before any other thread knows the log. Changes the context's buckets
// and files, and latches it where the store can only be read.
#ifndef ENGINE_RACE_LOG_RECOVERY_H_
#define ENGINE_RACE_LOG_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/group_writer.h"
#include "engine_race/log/index_coverage.h"
#include "engine_race/log/journal_replay.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"

namespace engine_race {

class Recovery {
 public:
  // Works on all three, which outlive it.
  Recovery(LogContext* context, LogWriter* writer, GroupWriter* groups)
      : context_(*context), writer_(*writer), groups_(*groups) {}

  // Fills the context's buckets. Ok also when the store can only be read: then the latch says why.
  // An error leaves nothing to open: the next opening begins anew. kIncomplete: with
  // Options::read_only, and the store must be opened for writing first. Without `may_verify` that
  // is any store in doubt.
  Status Run(bool may_verify = true);

 private:
  Status KeepLostSegments(const std::vector<BucketState>& states, bool trusted);
  Status RedoBatches(std::vector<BucketState>* states, bool* redone);
  Status CheckStagingToWrite(const char** doubt);
  Status AdoptReadable(const char* doubt, const JournalReplay& journal,
                       const FoundCoverage& covered, std::vector<BucketState>* states);
  Status RecoverInDoubt(const JournalReplay& journal, std::vector<BucketState>* states);
  void AdoptStates(std::vector<BucketState>* states);
  void AdoptState(uint32_t bucket, BucketState* state);
  void AdoptTable(uint32_t bucket, SlotTable table);
  void TakeTablesBack(std::vector<BucketState>* states);
  void WriteFullGroups(uint32_t bucket);

  LogContext& context_;
  LogWriter& writer_;
  GroupWriter& groups_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_RECOVERY_H_
