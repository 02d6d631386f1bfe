// Hands out the rows of slots, and frees them.
//
// A row passes through these states:
//
//   taken     by the tail of the bucket, for a run of appended records, or by a mover
//   written   the file of rows says what it holds; it outlives the process
//   freed     the file says, durably, that the row or some of its slots hold nothing; before that
//             all that supersedes their records is durable
//   released  no view, cut or reader can come to it any more: the tail may fill the slots again. A
//             row that holds nothing is punched out, and may be taken again
//
// Thread safety: where a call says so, under the lock of its bucket; EnsureFile from any thread
// that holds no such lock.
#ifndef ENGINE_RACE_LOG_ROW_KEEPER_H_
#define ENGINE_RACE_LOG_ROW_KEEPER_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "engine_race/base/round_up.h"
#include "engine_race/base/status.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_writer.h"

namespace engine_race {

class RowKeeper {
 public:
  // Works on both, which outlive it.
  RowKeeper(LogContext* context, LogWriter* writer) : context_(*context), writer_(*writer) {}

  // Under the bucket's lock, before the next record is staged: makes sure that it has a slot.
  // kFull at the end of the bucket.
  Status MakeRoom(uint32_t bucket) {
    const Bucket& state = context_.buckets[bucket];
    if (!state.table.has_rows()) [[likely]] {
      return state.record_count < RegionEnd(state) ? Status::Ok() : RegionFull(bucket);
    }
    return state.record_count < state.table.RunEnd() ? Status::Ok() : TakeTailRow(bucket);
  }
  // Under the bucket's lock: whether there are slots for the next `count` records.
  bool HasRoom(uint32_t bucket, uint64_t count) const;
  // Under the bucket's lock: gives the next `count` records of a batch their slots. kFull.
  Status MakeRoomFor(uint32_t bucket, uint64_t count);

  // Makes sure that the store has a file of rows.
  Status EnsureFile();
  // Under the bucket's lock, after EnsureFile: from here on the bucket's rows count.
  Status BeginRows(uint32_t bucket);
  // Under the bucket's lock: how many rows may be taken. Before BeginRows: could be.
  uint64_t FreeRowCount(uint32_t bucket) const {
    const Bucket& state = context_.buckets[bucket];
    const Geometry& geometry = context_.geometry();
    const uint64_t used =
        state.table.has_rows()
            ? state.UsedRowCount() + state.leaving_rows.size()
            : RoundUp(state.record_count, geometry.row_records()) / geometry.row_records();
    return geometry.rows_per_bucket() - used;
  }
  // Under the bucket's lock: a row for moved records. kFull when no more than `kept_count` are
  // free.
  Status TakeRow(uint32_t bucket, uint64_t kept_count, uint32_t* row);
  // Under the bucket's lock: gives back a row that was taken and not written.
  void ReturnRow(uint32_t bucket, uint32_t row) noexcept;
  // Under the bucket's lock: says in memory and in the file what a row holds. A row that was free,
  // or gets another run, is born. The births of others stay as they are, whatever `content` says.
  // After kFull and std::bad_alloc neither says so, after another failure the file may.
  Status Write(uint32_t bucket, uint32_t index, const Row& content);
  // Under the bucket's lock: the free rows with places are to give these back. *rows: which ones.
  // They are among leaving_rows then, and the head reaches none of them that is the last row.
  Status LeaveFree(uint32_t bucket, std::vector<uint32_t>* rows);
  // Under the bucket's lock: the rows are free in the file, durably, and nothing can come to them
  // any more. Moves them out of *rows, and throws nothing.
  void Release(uint32_t bucket, std::set<uint32_t>* rows) {
    context_.buckets[bucket].free_rows.merge(*rows);
  }

 private:
  // The first slot that may not be used, of a bucket without rows. Where slots are used again, the
  // last row is kept for records that are moved until it is known that there are none.
  uint64_t RegionEnd(const Bucket& state) const {
    const uint64_t capacity = context_.geometry().bucket_capacity_records;
    // Relaxed: only whether it is null.
    if (state.may_fill_region ||
        context_.key_group_listener.load(std::memory_order_relaxed) == nullptr) {
      return capacity;
    }
    return capacity - std::min<uint64_t>(capacity, state.table.row_records());
  }
  Status RegionFull(uint32_t bucket) const;
  // Of a bucket with rows: the first number of a new record that has no slot.
  static uint64_t FirstWithoutSlot(const Bucket& state) {
    return std::max(state.record_count, state.table.RunEnd());
  }
  bool FindGaps(const Bucket& state, uint32_t* row) const;
  // How many rows that hold nothing the tail may take.
  uint64_t TailRowCount(uint32_t bucket) const;
  Status TakeTailRow(uint32_t bucket);
  Status TakeAnyRow(uint32_t bucket, uint32_t* row);
  Status Extend(uint32_t bucket, uint32_t index);
  Status PlaceBareRow(uint32_t bucket);
  // WriteNewRows, WriteRow and WriteRowsHead, which may use the reserve of space. The first one
  // flushes the rows.
  Status WriteNewInFile(uint32_t bucket, uint32_t first, std::vector<Row> rows);
  Status WriteInFile(uint32_t bucket, uint32_t index, const Row& row);
  Status WriteHeadInFile(uint32_t bucket, uint64_t row_end, uint64_t births);

  LogContext& context_;
  LogWriter& writer_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_KEEPER_H_
