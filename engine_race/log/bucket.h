// The state of one bucket in memory while its store is open.
//
// Plain state, owned by LogContext. Thread safety: everything but the atomics is guarded by
// `mutex`. Invariants: the lanes' watermarks and synced_watermark are at most record_count; the
// published copies never run ahead of what they copy.
#ifndef ENGINE_RACE_LOG_BUCKET_H_
#define ENGINE_RACE_LOG_BUCKET_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "engine_race/log/bucket_state.h"
#include "engine_race/log/followed_bucket.h"
#include "engine_race/log/full_group.h"
#include "engine_race/log/lane.h"
#include "engine_race/log/log_cut.h"
#include "engine_race/log/run_slots.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

class AppendListener;

// Aligned so that two buckets never share a cache line.
struct alignas(64) Bucket {
  Lane& LaneOf(LaneKind kind) { return kind == LaneKind::kValues ? values : keys; }
  const Lane& LaneOf(LaneKind kind) const { return kind == LaneKind::kValues ? values : keys; }

  // These calls, up to HasRows, are for readers that hold no lock.

  // The number of acknowledged records.
  uint64_t RecordCount() const {
    // Acquire pairs with the releases of those who count records: these can be read.
    return published_count.load(std::memory_order_acquire);
  }
  // Below it, values are in the log.
  uint64_t LoggedValueWatermark() const {
    // Acquire pairs with the releases in GroupWriter::FinishWrite and in Adopt.
    return published_value_watermark.load(std::memory_order_acquire);
  }
  LoggedSlots Logged() const {
    const uint64_t watermark = LoggedValueWatermark();
    // Acquire pairs with the releases in RowKeeper::BeginRows and AdoptTable: the runs are there.
    return {watermark, run_slots.load(std::memory_order_acquire)};
  }
  // No slot from this one on holds a record.
  uint64_t SlotEnd() const {
    // Acquire, as in Logged, and of the releases in RowKeeper::Extend and AdoptTable.
    const RunSlots* const runs = run_slots.load(std::memory_order_acquire);
    if (runs == nullptr) return RecordCount();
    return published_row_end.load(std::memory_order_acquire) * runs->row_records();
  }
  // See BucketLog. Sequentially consistent: pairs with RowMover::CanRelease.
  uint64_t ReuseCount() const { return reuse_count.load(std::memory_order_seq_cst); }
  // Acquire, as in Logged.
  bool HasRows() const { return run_slots.load(std::memory_order_acquire) != nullptr; }

  // A full group that no thread writes yet: just filled, or its write failed. False: there is none.
  bool FindIdleGroup(FullGroup* full) const;
  uint64_t UsedRowCount() const;  // rows that are not free, or not released yet
  // Whether the next record has a place in both lanes, and no batch holds the bucket.
  bool HasRoom() const {
    return !held && values.HasRoomFor(record_count) && keys.HasRoomFor(record_count);
  }

  // Waits for a place. One woken waiter runs at a time; it wakes the next one once it has staged
  // its record. A group has few places: waking all waiters would cost more than the group's write.
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
  // Under the mutex: waits once on `written`. And wakes these threads.
  void WaitForRelease(std::unique_lock<std::mutex>* lock);
  void WakeAwaitingRelease() noexcept;
  void Release();  // under the mutex

  // Under the mutex, while the lanes are idle: takes over counts, watermarks and places, but for
  // published_count. False: the places words name no places, and only the lanes were changed.
  bool Adopt(const Geometry& geometry, const BucketState& state);
  // Under the mutex: takes over the rows of another opening, and shows their runs to readers that
  // hold no lock. May throw std::bad_alloc.
  void AdoptTable(SlotTable adopted);
  // Under the mutex: records below this are in the log, and are read from there alone.
  uint64_t LoggedCount(LaneKind kind) const {
    return std::max(LaneOf(kind).watermark(), synced_watermark);
  }
  bool IsStagingIdle() const;  // under the mutex: whether nothing of staging is needed
  // Under the mutex: the slots of a row that hold nothing, and that no reader or view can come to.
  SlotBits GapsOf(uint32_t row) const;
  // Under the mutex: counts a row's slots that the tail may fill. Too few for a run count as none.
  void CountGaps(uint32_t row) noexcept;
  // Under the mutex: no appended record below this is looked for by its number any more. A cleaner
  // looks at what was appended since it came.
  uint64_t FoundBySlotEnd() const;
  // Under the mutex, when FoundBySlotEnd has risen.
  void CountMoreGaps(uint64_t end_before) noexcept;
  // Under the mutex: the tail fills the rows of `emptied` again that hold more than was given up.
  void FillUnemptied() noexcept;
  void LetFill(bool may_fill) noexcept;  // under the mutex: sets may_fill_region

  // Prefetches all cache lines that a write looks at. Caches do not keep those of all buckets.
  void Prefetch() const {
    const char* const end = reinterpret_cast<const char*>(&changed);
    const char* line = reinterpret_cast<const char*>(this);
    for (; line < end; line += alignof(Bucket)) __builtin_prefetch(line, /*rw=*/1);
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
  // Whether the unsynced records that Open found staged match: see RequireVerifiedStaging.
  bool staging_verified = false;
  // See GroupWriter::PrepareStaging. Not false while a batch holds the bucket.
  bool may_stage = false;
  bool is_swept = false;             // see GroupWriter::FlushReplaced
  std::atomic<bool> damaged{false};  // set at Open; only a follower changes it then
  Lane values, keys;
  BucketAtCut at_cut;
  // Copies for readers that hold no lock.
  std::atomic<uint64_t> published_count{0};
  std::atomic<uint64_t> published_value_watermark{0};

  // A lane has moved, a pin has gone, or a group's write has failed.
  std::condition_variable changed;
  // A write to the log has ended, a pin, a batch or a cleaner has gone, or there may be room.
  std::condition_variable written;
  // Records below this are in the logs and outlive power loss.
  uint64_t synced_watermark = 0;
  uint64_t found_clean_at = 0;  // BucketState::clean_at as Open found it
  // The slots below these have their space in the logs. Not in a bucket with rows.
  uint64_t reserved_keys = 0;
  uint64_t reserved_values = 0;

  SlotTable table;  // which records are in the slots, as the file of rows says
  TableAtCut table_at_cut;
  // Rows below this are durable in the file of rows. Behind the table's rows they are free.
  uint32_t durable_row_end = 0;
  // Rows that may be taken: nothing on disk or in memory needs what they held. Bare ones have no
  // place. Leaving ones may not be taken: they give theirs back. Taken ones are not written yet.
  // The nodes move between these sets, which needs no memory.
  std::set<uint32_t> free_rows, bare_rows, leaving_rows, taken_rows;
  AppendListener* views = nullptr;  // knows views: the listener, also while it is suspended
  // Views of lower versions show no record of a row. By row; rows that Open found have 0.
  std::vector<uint64_t> row_versions;
  // By row: slots that were given up and not released, and those that wait for RowMover::Settle.
  std::map<uint32_t, SlotBits> unreleased, unsettled;
  // Rows whose live records are moved: the tail leaves them, so that they get free.
  std::set<uint32_t> emptied;
  // By row: how many slots the tail may fill again. And their sum.
  std::vector<uint32_t> row_gaps;
  uint64_t gap_count = 0;
  // The rows that may hold anything before the bucket is cleaned: the tail takes no more.
  uint64_t row_limit = ~uint64_t{0};
  // No row can be freed: appends may fill the bucket to its end, and gaps not worth a run.
  bool may_fill_region = false;
  // Whether space of rows that earlier openings freed has been given back.
  bool leftovers_released = false;
  bool is_noted = false;  // by PlaceReturner
  // Whether a thread cleans the bucket. And how many records were in the logs when it came.
  bool claimed = false;
  uint64_t claimed_at = 0;
  // How many cuts have readers. The rows stay as they are for them. Raised under the lock.
  std::atomic<uint32_t> cut_count{0};
  // How many FreedSlots were settled and not yet refused by a Release, or one works on: a hint.
  std::atomic<uint32_t> untried_count{0};
  // A copy of the table's runs for readers without a lock. Null without rows.
  std::unique_ptr<RunSlots> owned_run_slots;
  std::atomic<const RunSlots*> run_slots{nullptr};
  std::atomic<uint64_t> published_row_end{0};  // how many rows were ever used
  std::atomic<uint64_t> reuse_count{0};        // raised before slots are given to other records
  FollowedBucket followed;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_BUCKET_H_
