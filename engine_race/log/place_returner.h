// Gives the places of rows that hold nothing back, so that rows of other buckets get them.
//
// It takes two flushes of the file of rows, and makes none for that alone: RowMover::Settle calls
// BeforeFlush and AfterFlush. Before the first flush, the head of the bucket counts the births of
// rows that may be gone later. It reaches the last rows no more if they are among these. After that
// flush the places get vacant images and lose their entries. After the second one they are free.
//
// Thread safety: Note and is_returning by any thread, the other calls by one at a time.
#ifndef ENGINE_RACE_LOG_PLACE_RETURNER_H_
#define ENGINE_RACE_LOG_PLACE_RETURNER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/row_keeper.h"
#include "engine_race/log/segment_table.h"

namespace engine_race {

class PlaceReturner {
 public:
  // Works on both, which outlive it.
  PlaceReturner(LogContext* context, RowKeeper* rows);

  // Under the bucket's lock: some of its free rows may give their places back.
  void Note(uint32_t bucket) noexcept;
  // Whether another flush would bring that further.
  bool is_returning() const { return is_returning_.load(std::memory_order_relaxed); }

  // kFull for no bucket: a later flush tries those again.
  Status BeforeFlush();
  void AfterFlush() noexcept;

 private:
  struct LeavingRow {
    uint32_t bucket = 0;
    uint32_t row = 0;
    SegmentPlace place;
  };

  Status Leave(uint32_t number);
  Status GiveBack(LeavingRow* row);

  LogContext& context_;
  RowKeeper& rows_;
  // The rows that no head reaches as the last ones, and those whose entries are gone.
  std::vector<LeavingRow> leaving_;
  std::vector<LeavingRow> left_;
  std::mutex mutex_;                       // guards noted_
  std::vector<uint32_t> noted_;            // buckets; it has the capacity for all of them
  std::atomic<bool> is_returning_{false};  // relaxed everywhere: a hint
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_PLACE_RETURNER_H_
