// One moment of a store that is written to: how many records each bucket has then, and where.
//
// A counter of cuts grows with each cut. An append reads it under its bucket's lock. The first
// append of a bucket that sees a new number keeps the bucket's record count from before itself.
// Taking a cut visits the other buckets. So a cut holds every record that was acknowledged before
// it was asked for. If it holds a record, it also holds all that were acknowledged before that
// record's append began. No writer waits.
//
// In the same way, the first slots of a bucket that are freed or filled again keep its rows from
// before that. All other changes only add rows: what these hold of the cut is in older rows too.
//
// TakeCut is the only place where a cut is taken. It waits for batches that are being counted, and
// none is counted meanwhile.
//
// Thread safety: TakeCut from any thread, beside appends. CutCounter belongs to a LogContext.
#ifndef ENGINE_RACE_LOG_LOG_CUT_H_
#define ENGINE_RACE_LOG_LOG_CUT_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

struct LogContext;

class CutCounter {
 public:
  // The number of the last cut. Relaxed: an append that happens after another one reads the same
  // number or a later one.
  uint64_t number() const { return number_.load(std::memory_order_relaxed); }

 private:
  friend Status TakeCut(LogContext* context, std::vector<uint64_t>* record_counts,
                        std::vector<SlotTable>* tables);

  std::atomic<uint64_t> number_{0};
  std::mutex mutex_;  // one cut at a time
};

// The records that a bucket had at the last cut that it has seen; under the bucket's lock.
struct BucketAtCut {
  void See(uint64_t cut_number, uint64_t count) {
    if (number == cut_number) [[likely]] {
      return;
    }
    number = cut_number;
    record_count = count;
  }

  uint64_t number = 0;
  uint64_t record_count = 0;
};

// The rows that a bucket had at the last cut that it has seen; under the bucket's lock.
class TableAtCut {
 public:
  // Before slots of `table` are freed, or a row is filled again. May throw std::bad_alloc, and has
  // changed nothing then.
  void See(uint64_t cut_number, const SlotTable& table) {
    if (number_ == cut_number) [[likely]] {
      return;
    }
    kept_ = table;
    number_ = cut_number;
  }
  // For the cut, which calls it once: the rows from before the first See with its number, or
  // `table`.
  SlotTable Take(uint64_t cut_number, const SlotTable& table) {
    See(cut_number, table);
    SlotTable taken = std::move(*kept_);
    kept_.reset();
    return taken;
  }
  // For a cut that does not call Take.
  void Skip(uint64_t cut_number) {
    number_ = cut_number;
    kept_.reset();
  }

 private:
  uint64_t number_ = 0;
  std::optional<SlotTable> kept_;  // until the cut takes it
};

// Takes a cut: (*record_counts)[bucket] records of each bucket, in the rows (*tables)[bucket].
// These have all rows that hold records of the cut, and may have rows that came later: CutRows
// drops them. `tables` may be null: to copy them makes writers wait a little. kCorruption when the
// counts of a bucket are damaged.
Status TakeCut(LogContext* context, std::vector<uint64_t>* record_counts,
               std::vector<SlotTable>* tables);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_CUT_H_
