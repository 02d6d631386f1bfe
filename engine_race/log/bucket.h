// The state of one bucket in memory while its store is open.
//
// Plain state, owned by LogContext. Thread safety: everything but the atomics and `damaged` is
// guarded by `mutex`. Invariants: the lanes' watermarks and synced_watermark are at most
// record_count; the published copies never run ahead of what they copy.
#ifndef ENGINE_RACE_LOG_BUCKET_H_
#define ENGINE_RACE_LOG_BUCKET_H_

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/lane.h"
#include "engine_race/log/log_cut.h"
#include "engine_race/log/run_numbers.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

class AppendListener;

inline constexpr uint64_t kUnknownRowEnd = ~uint64_t{0};

// Aligned so that two buckets never share a cache line.
struct alignas(64) Bucket {
  static constexpr size_t kLineBytes = 64;

  Lane& LaneOf(LaneKind kind) { return kind == LaneKind::kValues ? values : keys; }
  const Lane& LaneOf(LaneKind kind) const { return kind == LaneKind::kValues ? values : keys; }

  // These calls, up to HasRows, are for readers that hold no lock.

  // The number of acknowledged records.
  uint64_t RecordCount() const {
    // Acquire pairs with the release in GroupWriter::Stage: the records counted are staged.
    return published_count.load(std::memory_order_acquire);
  }
  // Below it, values are in the log.
  uint64_t LoggedValueWatermark() const {
    // Acquire pairs with the release in GroupWriter::FinishWrite: the group's write has completed.
    return published_value_watermark.load(std::memory_order_acquire);
  }
  LoggedSlots Logged() const {
    const uint64_t watermark = LoggedValueWatermark();
    // Acquire pairs with the release in RowKeeper::BeginRows: the numbers are filled in.
    return {watermark, run_numbers.load(std::memory_order_acquire)};
  }
  // No slot from this one on holds a record.
  uint64_t SlotEnd() const {
    // Acquire pairs with the release in RowKeeper::Extend.
    return HasRows() ? published_row_end.load(std::memory_order_acquire) * table.row_records()
                     : RecordCount();
  }
  // See BucketLog.
  uint64_t ReuseCount() const {
    // Sequentially consistent: pairs with RowMover::CanRelease.
    return reuse_count.load(std::memory_order_seq_cst);
  }
  bool HasRows() const {
    // Acquire, as in Logged.
    return run_numbers.load(std::memory_order_acquire) != nullptr;
  }

  // A full group that no thread writes yet: one that has just been filled, or one whose write
  // failed. False when there is none.
  bool FindIdleGroup(FullGroup* full) const {
    for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
      const Lane& lane = LaneOf(kind);
      if (lane.FindIdleFullGroup(record_count, &full->group)) {
        full->kind = kind;
        const uint64_t first = full->group * lane.group_records();
        full->place = lane.PlaceOf(first);
        full->slot = table.SlotOf(first);
        return true;
      }
    }
    return false;
  }

  // Whether the next record has a place in both lanes, and no batch holds the bucket.
  bool HasRoom() const {
    return !held && values.HasRoomFor(record_count) && keys.HasRoomFor(record_count);
  }

  // Waits for a place. At most one woken waiter runs at a time; it wakes the next one after it has
  // staged its record. A group has few places: waking all waiters for them would cost more than the
  // group's write.
  void Wait(std::unique_lock<std::mutex>* lock);
  void WakeOneIfRoom() {
    // The batch may wait for a place.
    if (held) [[unlikely]] {
      written.notify_all();
      return;
    }
    if (waiting == 0 || waking || !HasRoom()) return;
    waking = true;
    changed.notify_one();
  }

  // Waits until no batch holds the bucket. With `unclaimed` also until no thread cleans it.
  void AwaitRelease(std::unique_lock<std::mutex>* lock, bool unclaimed = false);
  // Under the mutex.
  void Release() {
    ENGINE_RACE_ASSERT(held);
    held = false;
    if (awaiting_release != 0) written.notify_all();
    WakeOneIfRoom();
  }

  // Prefetches all cache lines that a write looks at, at once. A store has more buckets than a
  // cache keeps while values pass through it.
  void Prefetch() const {
    const char* const end = reinterpret_cast<const char*>(&changed);
    for (const char* line = reinterpret_cast<const char*>(this); line < end; line += kLineBytes) {
      __builtin_prefetch(line, /*rw=*/1);
    }
  }

  // The members that each write looks at come first.
  std::mutex mutex;
  uint64_t record_count = 0;
  AppendListener* listener = nullptr;
  uint32_t waiting = 0;
  uint32_t awaiting_release = 0;
  bool waking = false;
  // A batch is being written to this bucket: it alone appends, and nothing attaches or detaches the
  // listener or changes what the listener has prepared. Groups are written and synced meanwhile.
  bool held = false;
  // Whether the records that this opening found staged have been compared with their checksums.
  // That comes before anything is written over the logs or behind them.
  bool staging_verified = false;
  // Set at Open and constant after it.
  bool damaged = false;
  Lane values;
  Lane keys;
  BucketAtCut at_cut;
  // Copies for readers that hold no lock.
  std::atomic<uint64_t> published_count{0};
  std::atomic<uint64_t> published_value_watermark{0};

  // A lane has moved, a pin has gone, or a group's write has failed.
  std::condition_variable changed;
  // For Sync and for batches: a write to the log has ended, a pin has gone, or a batch has released
  // the bucket.
  std::condition_variable written;
  // Records below this are in the logs and outlive power loss.
  uint64_t synced_watermark = 0;
  // BucketState::clean_at as Open found it.
  uint64_t found_clean_at = 0;
  // Log bytes reserved ahead of what has been written. Not in a bucket with rows.
  uint64_t reserved_key_bytes = 0;
  uint64_t reserved_value_bytes = 0;

  // Says which records are in the slots, as the file of rows does.
  SlotTable table;
  TableAtCut table_at_cut;
  // Rows that may be taken: nothing on disk or in memory needs what they held.
  std::set<uint32_t> free_rows;
  // Views of lower versions show no record of a row. By row; rows that Open found have 0.
  std::vector<uint64_t> row_births;
  // By row, if it is free: SlotTable::EndOf of its last records. kUnknownRowEnd for rows that Open
  // found.
  std::vector<uint64_t> row_ends;
  // How many groups of freed cells a row has that have not been released.
  std::map<uint32_t, uint32_t> unreleased;
  // By row: cells that wait for RowMover::Settle, a bit each.
  std::map<uint32_t, uint32_t> unsettled_cells;
  // Whether appends may fill the region to its end, because no row of it can be freed.
  bool may_fill_region = false;
  // Whether space of cells that earlier openings freed has been given back.
  bool leftovers_released = false;
  // Whether a thread cleans the bucket.
  bool claimed = false;
  // How many cuts have readers. The rows stay as they are for them. Raised under the lock.
  std::atomic<uint32_t> cut_count{0};
  // Settled groups of freed cells that no Release has refused, and those that are being released.
  // A hint.
  std::atomic<uint32_t> untried_count{0};
  // A copy of the table's runs for readers without a lock. Null without rows.
  std::unique_ptr<RunNumbers> owned_run_numbers;
  std::atomic<const RunNumbers*> run_numbers{nullptr};
  // How many rows were ever used.
  std::atomic<uint64_t> published_row_end{0};
  // Raised before slots are given to other records.
  std::atomic<uint64_t> reuse_count{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_H_
