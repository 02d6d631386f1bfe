// Frees slots of dead records, moves live records to rows of their own, and releases slots.
//
// A cleaner finds the live records of a bucket and gives up the slots of all others. It moves the
// live records of sparse rows to new rows, and then gives up their slots as well. A crash may
// follow each of the steps:
//
//   Publish   The new row counts, as one that may not be durable. The index learns of the slots.
//   Free      The slots are given up: the next Settle frees them.
//   Settle    Flushes the logs. So the new rows are durable, and so is all that supersedes other
//             records of the slots: a cleaner looks at no record that only staging holds. Then the
//             file of rows says that the new rows are durable and that the slots hold nothing. It
//             is flushed.
//   Release   Once no view, cut or reader can come to the slots, the tail may fill them again. Rows
//             that hold nothing are punched out. The next Settles give their places back.
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
#include "engine_race/log/place_returner.h"
#include "engine_race/log/row_keeper.h"
#include "engine_race/log/row_puncher.h"
#include "engine_race/log/syncer.h"

namespace engine_race {

// Slots of a row that were given up.
struct FreedSlots {
  uint32_t bucket = 0;
  uint32_t row = 0;
  SlotBits slots;
  // Views of a version in [first_version, version) may show records of the slots.
  uint64_t first_version = 0;
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
        puncher_(context),
        returner_(context, &rows_) {}

  // After recovery: the next Settle settles the moves that an earlier opening has published.
  void AdoptMoves();

  // Claims a bucket for cleaning. False when another thread has the claim, a batch holds the
  // bucket, or the bucket is damaged. *held, which may be null, says whether a batch holds it. A
  // large batch takes its hold once the claim is given back.
  bool Claim(uint32_t bucket, bool* held = nullptr);
  // Waits until the bucket is claimed. With a `wanted_count` also until it has room for so many
  // records: false, and not claimed. The bucket must not be damaged.
  bool AwaitClaim(uint32_t bucket, uint64_t wanted_count = 0);
  void Unclaim(uint32_t bucket);

  // With the bucket claimed: from here on it has rows.
  Status Begin(uint32_t bucket);
  // How many rows TakeRow can give. Before Begin: how many it could.
  uint64_t FreeRowCount(uint32_t bucket) const;
  // Whether the next `count` records of the bucket have slots.
  bool HasRoom(uint32_t bucket, uint64_t count) const;
  // Whether slots of the bucket wait for Settle or Release.
  bool HasWaiting(uint32_t bucket) const;
  // Whether what waits may be released soon: no view is known to hold it, or a cut does.
  bool IsReleasing(uint32_t bucket) const;
  // With the bucket claimed: takes a row for moved records. kFull when no more than
  // `kept_count` are free.
  Status TakeRow(uint32_t bucket, uint64_t kept_count, uint32_t* row);
  // Gives back a row that was not published.
  void ReturnRow(uint32_t bucket, uint32_t row) noexcept;
  // Writes values of moved records, within one group, to a row that was taken.
  Status WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count, const void* values);
  // Writes the entries of `records` to the row, from its first slot on, and publishes the row. They
  // are the newest of their keys among the first `horizon` records. After a failure the row holds
  // only those that the index has at their new slots. A row that was not written is given back.
  Status Publish(uint32_t bucket, uint32_t row, uint64_t horizon, std::span<KeyRecord> records);
  // With the bucket claimed: the tail fills no gaps of these rows until they are released, unless
  // the bucket is full. A row that holds other records at Unclaim is filled again. kOutOfMemory.
  Status Empty(uint32_t bucket, std::span<const uint32_t> rows);
  // Fills in *freed but for its slots: the row, and the versions of views that may
  // show its records.
  void Describe(uint32_t bucket, uint32_t row, FreedSlots* freed) const;

  // By row: the slots that were given up and wait for Settle.
  std::map<uint32_t, SlotBits> UnsettledSlots(uint32_t bucket) const;
  // How many slots the tail may fill again.
  uint64_t GapCount(uint32_t bucket) const;
  // The tail takes no free row while `row_limit` rows hold anything. Once it has no gaps either,
  // HasRoom is false and appends answer kFull. Ends LetFill if the tail has a free row.
  void LimitRows(uint32_t bucket, uint64_t row_limit);
  // Raises that limit for the next `count` records, and by a 16th of the rows at least. False: the
  // bucket has no rows, or no room for them. Then the limit is gone.
  bool LetGrow(uint32_t bucket, uint64_t count);
  // When no row of the bucket can be freed: lets appends fill what they leave alone otherwise. In a
  // bucket with rows these are gaps that are not worth a run. In others it is the last row, which
  // is kept for movers. False if the records do not fit then either.
  bool LetFill(uint32_t bucket, uint64_t count);
  // Gives up slots. Settle and Release do the rest. kOutOfMemory: some were not given up.
  Status Free(std::span<const FreedSlots> freed);
  // Makes all moves durable that were published before the call, and frees the slots. Two calls
  // give the places of free rows back. IsReturning: whether another one would bring that further.
  Status Settle();
  bool IsReturning() const { return returner_.is_returning(); }
  // With the bucket claimed, once in an opening: gives back the space of rows that earlier openings
  // freed and did not release.
  void ReleaseLeftovers(uint32_t bucket);
  // Releases the settled slots that no view, cut or reader can come to any more.
  void Release() noexcept;
  // Gives the space of the bucket's gaps back to the file system, where other buckets may need it.
  // The tail may still fill these gaps. Rows of fewer gaps than `least_count` keep their space.
  void PunchGaps(uint32_t bucket, uint32_t least_count = 1) noexcept;

  // Whether a release gives space back to the file systems. True until one has refused.
  bool gives_space_back() const { return puncher_.punches(); }
  // Bytes of slots that wait for Settle, and for Release.
  uint64_t unsettled_bytes() const { return unsettled_bytes_.load(std::memory_order_relaxed); }
  uint64_t unreleased_bytes() const { return unreleased_bytes_.load(std::memory_order_relaxed); }
  // Of the latter: those that no view or cut is known to hold.
  uint64_t releasable_bytes() const {
    const uint64_t held = held_bytes_.load(std::memory_order_relaxed);
    return unreleased_bytes() - std::min(unreleased_bytes(), held);
  }
  // For a cleaner: counts bytes that it has read.
  void CountRead(uint64_t bytes) { read_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  // Bytes of this opening: read, moved, and released.
  uint64_t read_bytes() const { return read_bytes_.load(std::memory_order_relaxed); }
  uint64_t moved_bytes() const { return moved_bytes_.load(std::memory_order_relaxed); }
  uint64_t released_bytes() const { return released_bytes_.load(std::memory_order_relaxed); }
  // Of these, and of gaps: bytes that were given back to the file systems.
  uint64_t given_back_bytes() const { return puncher_.given_back_bytes(); }

 private:
  struct PublishedRow {
    uint32_t bucket = 0;
    uint32_t row = 0;
  };

  uint64_t BytesOf(const FreedSlots& freed) const;
  Status PublishTaken(uint32_t bucket, uint32_t row, uint64_t horizon, std::span<KeyRecord> records,
                      bool* may_be_written);
  Status TellIndex(uint32_t bucket, std::span<const KeyRecord> records,
                   std::span<const uint64_t> newer_keys, size_t* told_count);
  void KeepFirst(uint32_t bucket, uint32_t row, uint32_t count) noexcept;
  Status ReadNewerKeys(uint32_t bucket, uint64_t* from, std::vector<uint64_t>* keys) const;
  Status AddNewerKey(uint32_t bucket, const format::KeyEntry& entry, uint64_t sequence,
                     std::vector<uint64_t>* keys) const;
  void FreeOne(const FreedSlots& freed);
  Status FreeInFile(const FreedSlots& freed);
  bool ReleaseOne(const FreedSlots& freed) noexcept;
  bool CanRelease(const FreedSlots& freed);

  LogContext& context_;
  LogWriter& writer_;
  const LogReader& reader_;
  Syncer& syncer_;
  RowKeeper rows_;
  RowPuncher puncher_;
  PlaceReturner returner_;   // its flushes under settle_mutex_
  std::mutex settle_mutex_;  // one Settle at a time
  std::mutex mutex_;         // around the three lists
  std::vector<PublishedRow> published_;
  std::vector<FreedSlots> unsettled_;
  std::list<FreedSlots> unreleased_;  // moved from and to without memory
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
