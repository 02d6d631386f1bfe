// Moves records to rows of their own, frees what they leave, and gives the space back.
//
// A cleaner finds the live records of a bucket. It moves those of sparse cells to new rows, and
// then gives up the cells. A crash may follow each of the steps:
//
//   Publish   The new row counts, as one that may not be durable. The index learns of the slots.
//   Free      The cells are given up: the next Settle frees them.
//   Settle    Flushes the logs. So the new rows are durable, and so is all that supersedes other
//             records of the cells: a cleaner looks at no record that only staging holds. Then the
//             file of rows says that the new rows are durable and that the cells hold nothing. It
//             is flushed.
//   Release   Once no view, cut or reader can come to the cells: punches them out, and hands out
//             whole rows again.
//
// Thread safety: every call from any thread; a bucket is cleaned by one thread at a time, which has
// claimed it.
#ifndef ENGINE_RACE_LOG_ROW_MOVER_H_
#define ENGINE_RACE_LOG_ROW_MOVER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/log_reader.h"
#include "engine_race/log/log_writer.h"
#include "engine_race/log/row_keeper.h"
#include "engine_race/log/row_puncher.h"
#include "engine_race/log/syncer.h"

namespace engine_race {

// Cells of a row that hold no live records.
struct FreedCells {
  uint32_t bucket = 0;
  uint32_t row = 0;
  uint32_t cells = 0;  // a bit each
  // Views of a version in [birth, version) may show records of the cells.
  uint64_t birth = 0;
  uint64_t version = 0;
  // Whether a Release has met a view or a cut that can come to them.
  bool held = false;
};

class RowMover {
 public:
  // Works on all of them, which outlive it.
  RowMover(LogContext* context, LogWriter* writer, const LogReader* reader, Syncer* syncer)
      : context_(*context),
        writer_(*writer),
        reader_(*reader),
        syncer_(*syncer),
        rows_(context, writer),
        puncher_(context) {}

  // After recovery: the next Settle settles the moves that an earlier opening has published.
  void AdoptMoves();

  // Claims a bucket for cleaning. False when another thread has the claim, a batch holds the
  // bucket, or the bucket is damaged. *held, which may be null, says whether a batch holds it. A
  // large batch takes its hold once the claim is given back.
  bool Claim(uint32_t bucket, bool* held = nullptr);
  void Unclaim(uint32_t bucket);

  // With the bucket claimed: from here on it has rows.
  Status Begin(uint32_t bucket);
  // How many rows TakeRow can give. Before Begin: how many it could.
  uint64_t FreeRowCount(uint32_t bucket) const;
  // Whether the next `count` records of the bucket have slots.
  bool HasRoom(uint32_t bucket, uint64_t count) const;
  // Whether cells of the bucket wait for Settle or Release.
  bool HasWaiting(uint32_t bucket) const;
  // Whether what waits may be released soon: no view is known to hold it, or a cut does.
  bool IsReleasing(uint32_t bucket) const;
  // With the bucket claimed: takes a row for moved records. kFull when no more than
  // `kept_count` are free.
  Status TakeRow(uint32_t bucket, uint64_t kept_count, uint32_t* row);
  // Gives back a row that was not published.
  void ReturnRow(uint32_t bucket, uint32_t row);
  // Writes values of moved records, within one group, to a row that was taken.
  Status WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, const void* values);
  // Writes the entries of `records` to the row, from its first slot on, and publishes the row. They
  // were the newest of their keys when the bucket had `horizon` records. Each record names the slot
  // that it was in. After a failure the row holds only those that the index has at their new slots.
  // A row that was not written is given back.
  Status Publish(uint32_t bucket, uint32_t row, uint64_t horizon, std::span<KeyRecord> records);
  // Fills in *freed but for its cells: the row, and the versions of views that may show its
  // records.
  void Describe(uint32_t bucket, uint32_t row, FreedCells* freed) const;

  // By row: the cells that were given up and wait for Settle, a bit each.
  std::map<uint32_t, uint32_t> UnsettledCells(uint32_t bucket) const;
  // When nothing of the bucket can be freed: lets appends fill its last row. False if the records
  // do not fit then either, or if the bucket has rows.
  bool LetFill(uint32_t bucket, uint64_t count);
  // Gives up cells. Settle and Release do the rest. kOutOfMemory, or std::bad_alloc: some were not
  // given up.
  Status Free(std::span<const FreedCells> freed);
  // Makes all moves durable that were published before the call, and frees the cells.
  Status Settle();
  // With the bucket claimed, once in an opening: gives back the space of cells that earlier
  // openings freed and did not release.
  void ReleaseLeftovers(uint32_t bucket);
  // Releases the settled cells that no view, cut or reader can come to any more.
  void Release() noexcept;

  // Bytes of cells that wait for Settle, and for Release.
  uint64_t unsettled_bytes() const { return unsettled_bytes_.load(std::memory_order_relaxed); }
  uint64_t unreleased_bytes() const { return unreleased_bytes_.load(std::memory_order_relaxed); }
  // Of the latter: those that no view or cut is known to hold.
  uint64_t releasable_bytes() const {
    const uint64_t held = held_bytes_.load(std::memory_order_relaxed);
    return unreleased_bytes() - std::min(unreleased_bytes(), held);
  }
  // For a cleaner: counts bytes that it has read.
  void CountRead(uint64_t bytes) { read_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  // Bytes of this opening: read, moved, and given back.
  uint64_t read_bytes() const { return read_bytes_.load(std::memory_order_relaxed); }
  uint64_t moved_bytes() const { return moved_bytes_.load(std::memory_order_relaxed); }
  uint64_t released_bytes() const { return released_bytes_.load(std::memory_order_relaxed); }

 private:
  struct PublishedRow {
    uint32_t bucket = 0;
    uint32_t row = 0;
  };

  uint64_t BytesOf(const FreedCells& freed) const;
  uint64_t TakeNumber(uint32_t bucket, uint32_t row, uint64_t horizon,
                      std::span<const KeyRecord> records);
  Status PublishTaken(uint32_t bucket, uint32_t row, uint64_t horizon, std::span<KeyRecord> records,
                      bool* may_be_written);
  Status TellIndex(uint32_t bucket, std::span<const KeyRecord> records,
                   std::span<const uint64_t> newer_keys, size_t* told_count);
  void KeepFirst(uint32_t bucket, uint32_t row, uint32_t count) noexcept;
  Status ReadNewerKeys(uint32_t bucket, uint64_t* from, std::vector<uint64_t>* keys) const;
  Status AddNewerKey(uint32_t bucket, const format::KeyEntry& entry, uint64_t sequence,
                     std::vector<uint64_t>* keys) const;
  Status FreeInFile(const FreedCells& freed);
  bool ReleaseOne(const FreedCells& freed) noexcept;
  bool CanRelease(const FreedCells& freed);

  LogContext& context_;
  LogWriter& writer_;
  const LogReader& reader_;
  Syncer& syncer_;
  RowKeeper rows_;
  RowPuncher puncher_;
  std::mutex settle_mutex_;  // one Settle at a time
  std::mutex mutex_;         // around the three lists
  std::vector<PublishedRow> published_;
  std::vector<FreedCells> unsettled_;
  std::list<FreedCells> unreleased_;  // moved from and to without memory
  // Relaxed everywhere: statistics and hints.
  std::atomic<uint64_t> unsettled_bytes_{0};
  std::atomic<uint64_t> unreleased_bytes_{0};
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> read_bytes_{0};
  std::atomic<uint64_t> moved_bytes_{0};
  std::atomic<uint64_t> released_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_ROW_MOVER_H_
