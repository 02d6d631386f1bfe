// Writes to the log files and their flushes, and what follows from a flush that fails.
//
// It remembers which log files have been written to since their last flush. After a failed flush
// the kernel may have marked the pages clean: a second flush would succeed and mean nothing. So a
// failed flush latches the store and makes the next opening verify what is not synced.
//
// Thread safety: every call from any thread, except that FlushLogs is for one thread at a time.
#ifndef ENGINE_RACE_LOG_LOG_WRITER_H_
#define ENGINE_RACE_LOG_LOG_WRITER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/io/piece_writer.h"
#include "engine_race/log/log_context.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {

class LogWriter {
 public:
  // Works on `context`, which outlives it.
  explicit LogWriter(LogContext* context);
  // Before the first write. Waits for late writes of a killed process to the files that are open;
  // files that are opened later are waited for then. kIOError.
  Status Init();

  // Whether a write makes holes of the zeros among its values: the disk is full. Asked once for a
  // write, before its values are read. It looks at them itself, so they must not be mapped then.
  bool makes_holes() const { return context_.reserve.is_given_up(); }
  // Writes values to `pieces` of a bucket's slots, in order. kFull, kIOError.
  Status WriteValues(uint32_t bucket, std::span<const SlotPiece> pieces, const void* data) {
    return WriteValues(bucket, pieces, data, makes_holes());
  }
  // Writes `count` entries, whole pages, from `slot` on. kFull, kIOError.
  Status WriteKeys(uint32_t bucket, uint64_t slot, uint64_t count, const format::KeyEntry* entries);
  // Writes the values, or the entries, of appended records from `sequence` on, of one group, to
  // their slots. Leaves synced records out. For entries `sequence` is a multiple of kPageEntries,
  // and zeros follow the last entry to the end of its page. Entries may use the reserve of space,
  // and make no holes. Takes the bucket's lock. kFull, kIOError.
  Status WriteRecordsOf(LaneKind kind, uint32_t bucket, uint64_t sequence, uint64_t count,
                        const char* records, bool makes_holes);

  // Writes entries to `pieces` of a bucket's slots, in order. The segments of the slots must have
  // places. Other entries in their pages stay. kFull, kIOError.
  Status PutKeys(uint32_t bucket, std::span<const SlotPiece> pieces,
                 const format::KeyEntry* entries);

  // Asks for log space for a group and, in steps that grow with the log, for groups after it. Takes
  // the bucket's lock. A refusal is for the write itself to report.
  void ReserveAhead(uint32_t bucket, LaneKind kind, uint64_t group);
  // Under the lock of a bucket with rows: gives back all space behind the last row, also what an
  // earlier opening has reserved. It is useless where slots are used again.
  Status GiveBackAhead(uint32_t bucket);

  // The slots of records [*begin, end). *begin rises to the first one that is not synced: the
  // others are in the logs already, and may be known by their slots alone.
  std::vector<SlotPiece> PiecesOf(uint32_t bucket, uint64_t* begin, uint64_t end);

  // Flushes every log file written to since its last flush, the table of segments and the rows.
  // Several threads flush many files: the file system and the device join their flushes.
  Status FlushLogs();
  // Flushes the table of segments, and the file of rows if there is one.
  Status FlushRows();
  // Flushes the counts and the rows that the opening has found, by the first call. To be called
  // before slots are freed, given out again or punched out. Slots that were found free may be free
  // in the page cache alone. A record counts as durable below a synced watermark, so what it
  // supersedes may be freed. But a Sync that was killed may have stored the watermark and not
  // flushed it. Errors as Flush.
  Status FlushFound();
  // Flushes a file that several threads flush. kIOError, whatever the reason, and Poison, when that
  // fails. After any failure that has latched, also that of another file, it flushes nothing and
  // returns the latch's status.
  Status Flush(const io::File& file) noexcept;

  // Ends all writing, and makes the next opening verify every record that is not synced.
  void Poison(const Status& failure) noexcept;
  // Makes the next opening verify every record that is not synced.
  void PutInDoubt() noexcept;

  uint64_t flush_count() const {
    // Relaxed: a statistic.
    return flush_count_.load(std::memory_order_relaxed);
  }

 private:
  Status WriteValues(uint32_t bucket, std::span<const SlotPiece> pieces, const void* data,
                     bool makes_holes);
  Status WriteParts(uint32_t bucket, std::span<const io::WriteRequest> parts);
  Status WriteEntriesOf(uint32_t bucket, uint64_t sequence, uint64_t count, const char* entries);
  void NoteKeysWritten(uint32_t bucket, uint64_t slot, uint64_t count);
  Status FlushLog(uint32_t number);
  // Flush of a file that no other thread flushes.
  Status FlushAlone(const io::File& file) noexcept;
  Status PoisonUnlessFlushed(const Status& flushed) noexcept;
  void CountWritten(uint64_t bytes) {
    // Relaxed: a statistic.
    context_.written_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }

  LogContext& context_;
  // One flag a log file, the key files before the value files: written to since its last flush.
  std::vector<std::atomic<bool>> dirty_files_;
  std::atomic<uint64_t> flush_count_{0};
  // Held by Flush: the next flush must see that this one has failed.
  std::mutex flush_mutex_;
  std::mutex found_mutex_;                      // held by FlushFound
  std::atomic<bool> has_flushed_found_{false};  // whether it has succeeded
  io::PieceWriter piece_writer_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_LOG_WRITER_H_
