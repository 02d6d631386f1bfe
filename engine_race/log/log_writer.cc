#include "engine_race/log/log_writer.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/is_zero.h"
#include "engine_race/base/parallel.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/entry_pages.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/file_part.h"
#include "engine_race/log/parallel_work.h"

namespace engine_race {
namespace {

// How far ahead of a group its log is reserved, in groups. That is 64 KiB to 1 MiB for key groups
// of 4 KiB, and 2 to 32 MiB for value groups of 128 KiB. Larger groups of values take no more
// bytes.
constexpr uint64_t kMinReserveGroups = 16;
constexpr uint64_t kMinReserveBytes = uint64_t{2} << 20;
constexpr uint64_t kMaxReserveGroups = 256;
constexpr uint64_t kMaxReserveBytes = uint64_t{32} << 20;
// Values: space for a sixteenth of those that the bucket has, as SegmentTable gives segments.
// Entries: for as many as it has.
constexpr uint64_t kValuesPerReserved = 16;
// Fewer files are not worth a thread of their own.
constexpr uint32_t kFilesPerFlushThread = 4;
constexpr uint32_t kMaxFlushThreads = 8;

// Writes values, and makes holes where they are zeros: a tombstone takes no space for its value.
// From the first hole that cannot be made on, it writes the zeros. Holes that were made stay: a
// write into one would need space. kFull also where what is left of the reserve is for entries.
Status WriteWithHoles(const io::WriteRequest& values, uint64_t slot_bytes, SpaceReserve* reserve) {
  const uint64_t slot_count = values.size_bytes / slot_bytes;
  uint64_t punched_end = 0;
  for (; punched_end < slot_count; ++punched_end) {
    if (!IsZero(values.data + punched_end * slot_bytes, slot_bytes)) continue;
    const uint64_t offset = values.offset + punched_end * slot_bytes;
    bool supported = false;
    const Status punched = values.file->Punch(offset, offset + slot_bytes, &supported);
    if (!punched.ok() || !supported) break;
  }
  const auto is_hole = [&](uint64_t slot) {
    return slot < punched_end && IsZero(values.data + slot * slot_bytes, slot_bytes);
  };
  for (uint64_t begin = 0; begin < slot_count; ++begin) {
    uint64_t end = begin;
    while (end < slot_count && !is_hole(end)) ++end;
    if (begin == end) continue;
    ENGINE_RACE_RETURN_IF_ERROR(reserve->CheckForValues(*values.file));
    ENGINE_RACE_RETURN_IF_ERROR(values.file->Write(values.data + begin * slot_bytes,
                                                   (end - begin) * slot_bytes,
                                                   values.offset + begin * slot_bytes));
    begin = end;
  }
  return Status::Ok();
}

}  // namespace

LogWriter::LogWriter(LogContext* context)
    : context_(*context), dirty_files_(2 * size_t{context->files.slots.file_count()}) {
  // Recovery writes to files without this object, and an earlier opening may have done so.
  SlotFiles& slots = context_.files.slots;
  const auto note_open = [this](uint32_t file) {
    const SlotFiles& opened = context_.files.slots;
    dirty_files_[file].store(true);
    dirty_files_[opened.file_count() + file].store(true);
  };
  for (uint32_t i = 0; i < slots.file_count(); ++i) {
    if (slots.is_open(i)) note_open(i);
  }
  slots.set_on_open([this, note_open](uint32_t file) {
    note_open(file);
    return piece_writer_.Add(context_.files.slots.value_file(file));
  });
}

Status LogWriter::Init() {
  std::vector<const io::File*> files;
  const SlotFiles& slots = context_.files.slots;
  for (uint32_t i = 0; i < slots.file_count(); ++i) {
    if (slots.is_open(i)) files.push_back(&slots.value_file(i));
  }
  return piece_writer_.Init(files, context_.options.io_backend != IoBackend::kPsync);
}

Status LogWriter::WriteValues(uint32_t bucket, std::span<const SlotPiece> pieces, const void* data,
                              bool makes_holes) {
  const SlotFiles& slots = context_.files.slots;
  const ValueLayout& layout = context_.geometry().layout;
  const auto* values = static_cast<const char*>(data);
  std::vector<io::WriteRequest> requests;
  std::vector<uint32_t> file_numbers;
  uint64_t size_bytes = 0;
  for (const SlotPiece& piece : pieces) {
    ENGINE_RACE_RETURN_IF_ERROR(slots.Give(bucket, piece.slot, piece.count));
    const uint64_t end = piece.slot + piece.count;
    for (uint64_t slot = piece.slot; slot < end;) {
      const SlotLocation location = slots.LocateValues(bucket, slot, end - slot);
      const uint64_t bytes = location.slot_count * layout.slot_bytes();
      requests.push_back({location.file, values + size_bytes, bytes, location.offset});
      file_numbers.push_back(location.file_number);
      size_bytes += bytes;
      slot += location.slot_count;
    }
  }
  const bool has_parts =
      std::any_of(requests.begin(), requests.end(), [](const io::WriteRequest& request) {
        return (request.offset | request.size_bytes) % kIoAlignment != 0;
      });
  if (has_parts || (makes_holes && !layout.is_aligned())) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteParts(bucket, requests));
  } else if (makes_holes) {
    // On a full disk zeros become holes: values of tombstones would use up the reserve.
    for (const io::WriteRequest& request : requests) {
      ENGINE_RACE_RETURN_IF_ERROR(WriteWithHoles(request, layout.slot_bytes(), &context_.reserve));
    }
  } else {
    ENGINE_RACE_RETURN_IF_ERROR(piece_writer_.Write(requests));
  }
  // After the write: the flush that clears the mark, in FlushLogs, begins after it too.
  for (const uint32_t file : file_numbers) dirty_files_[slots.file_count() + file].store(true);
  CountWritten(size_bytes);
  return Status::Ok();
}

// Of values that share blocks with others. Each write of the bucket brings what those before it
// have written, so there is one at a time.
Status LogWriter::WriteParts(uint32_t bucket, std::span<const io::WriteRequest> parts) {
  const std::lock_guard<std::mutex> one_at_a_time(context_.block_mutex_of(bucket));
  for (const io::WriteRequest& part : parts) {
    if (!context_.reserve.is_given_up()) {
      ENGINE_RACE_RETURN_IF_ERROR(WritePart(*part.file, part.data, part.size_bytes, part.offset));
      continue;
    }
    // On a full disk zeros that are there are not written: they may be those of tombstones.
    const uint32_t slot_bytes = context_.geometry().slot_bytes();
    std::vector<char> found(slot_bytes);
    for (uint64_t at = 0; at < part.size_bytes; at += slot_bytes) {
      const char* const data = part.data + at;
      size_t found_bytes = 0;
      if (IsZero(data, slot_bytes)) {
        std::fill(found.begin(), found.end(), 0);
        ENGINE_RACE_RETURN_IF_ERROR(
            ReadPart(*part.file, found.data(), slot_bytes, part.offset + at, &found_bytes));
        if (IsZero(found.data(), slot_bytes)) continue;
      } else {
        ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.CheckForValues(*part.file));
      }
      ENGINE_RACE_RETURN_IF_ERROR(WritePart(*part.file, data, slot_bytes, part.offset + at));
    }
  }
  return Status::Ok();
}

Status LogWriter::WriteKeys(uint32_t bucket, uint64_t slot, uint64_t count,
                            const format::KeyEntry* entries) {
  ENGINE_RACE_ASSERT(slot % format::kPageEntries == 0 && count % format::kPageEntries == 0);
  ENGINE_RACE_RETURN_IF_ERROR(context_.files.slots.WriteKeys(bucket, slot, count, entries));
  NoteKeysWritten(bucket, slot, count);
  return Status::Ok();
}

// After the write, as in WriteValues.
void LogWriter::NoteKeysWritten(uint32_t bucket, uint64_t slot, uint64_t count) {
  CountWritten(count * format::kKeyEntryBytes);
  for (const uint64_t end = slot + count; slot < end;) {
    const SlotLocation location = context_.files.slots.LocateKeys(bucket, slot, end - slot);
    dirty_files_[location.file_number].store(true);
    slot += location.slot_count;
  }
}

Status LogWriter::WriteRecordsOf(LaneKind kind, uint32_t bucket, uint64_t sequence, uint64_t count,
                                 const char* records, bool makes_holes) {
  if (kind == LaneKind::kKeys) {
    return context_.reserve.Write([&] { return WriteEntriesOf(bucket, sequence, count, records); },
                                  SpaceReserve::kLeftByEntries);
  }
  const uint64_t first = sequence;
  const std::vector<SlotPiece> pieces = PiecesOf(bucket, &sequence, first + count);
  return WriteValues(bucket, pieces,
                     records + (sequence - first) * context_.geometry().slot_bytes(), makes_holes);
}

// Pages that hold no other records than these, and later ones of their run, are written whole.
Status LogWriter::WriteEntriesOf(uint32_t bucket, uint64_t sequence, uint64_t count,
                                 const char* entries) {
  const uint64_t whole_count = RoundUp(count, format::kPageEntries);
  SlotPiece whole;
  {
    const Bucket& state = context_.buckets[bucket];
    const std::lock_guard<std::mutex> lock(context_.buckets[bucket].mutex);
    if (state.synced_watermark <= sequence) {
      whole = state.table.PieceFrom(sequence, sequence + whole_count);
    }
  }
  if (whole.count == whole_count && whole.slot % format::kPageEntries == 0) {
    return WriteKeys(bucket, whole.slot, whole_count,
                     reinterpret_cast<const format::KeyEntry*>(entries));
  }
  const uint64_t first = sequence;
  const std::vector<SlotPiece> pieces = PiecesOf(bucket, &sequence, first + count);
  return PutKeys(bucket, pieces,
                 reinterpret_cast<const format::KeyEntry*>(entries) + (sequence - first));
}

Status LogWriter::PutKeys(uint32_t bucket, std::span<const SlotPiece> pieces,
                          const format::KeyEntry* entries) {
  // Another group of the bucket may have entries in the same page.
  const std::lock_guard<std::mutex> one_at_a_time(context_.block_mutex_of(bucket));
  EntryPages pages(context_.files, bucket);
  for (const SlotPiece& piece : pieces) {
    for (uint64_t i = 0; i < piece.count; ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(pages.Put(piece.slot + i, *entries++));
    }
  }
  ENGINE_RACE_RETURN_IF_ERROR(pages.Finish());
  for (const SlotPiece& piece : pieces) NoteKeysWritten(bucket, piece.slot, piece.count);
  return Status::Ok();
}

// Key groups are small and come seldom. Without a reservation the key log of a bucket would lie in
// as many pieces as it has groups, and the index build reads the log as a whole. Value groups are
// large enough to lie in few pieces. But when many groups of one bucket are under way at once,
// writes to reserved space run side by side. Writes that must find space do not. On a full disk it
// would take the space that deletions need.
void LogWriter::ReserveAhead(uint32_t bucket_number, LaneKind kind, uint64_t group) {
  if (context_.reserve.is_given_up()) return;
  Bucket& bucket = context_.buckets[bucket_number];
  const Geometry& geometry = context_.geometry();
  const bool values = kind == LaneKind::kValues;
  const uint64_t count = geometry.group_records(kind);
  const uint64_t slot_bytes = geometry.record_bytes(kind);
  const uint64_t begin = group * count;
  // At least one group, whatever it takes.
  const uint64_t least_ahead =
      std::clamp(kMinReserveBytes / slot_bytes, count, kMinReserveGroups * count);
  const uint64_t most_ahead =
      std::clamp(kMaxReserveBytes / slot_bytes, count, kMaxReserveGroups * count);
  const uint64_t step =
      std::clamp(values ? begin / kValuesPerReserved : begin, least_ahead, most_ahead);
  uint64_t end = 0;
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    // Slots that are used again have their space at once, or are not neighbours.
    if (bucket.table.has_rows()) return;
    uint64_t& reserved = values ? bucket.reserved_values : bucket.reserved_keys;
    if (begin + count <= reserved) return;
    // A refusal is for the write to report.
    const Status given =
        Guarded([&] { return context_.files.slots.Give(bucket_number, begin, count); });
    if (!given.ok()) return;
    end = std::min(begin + step, context_.files.slots.SlotEnd(bucket_number));
    reserved = end;
  }
  // A refusal (a full disk, a file system without the call) is for the write itself to report.
  const SlotFiles& slots = context_.files.slots;
  const Status reserved = values ? slots.ReserveValues(bucket_number, begin, end - begin)
                                 : slots.ReserveKeys(bucket_number, begin, end - begin);
  static_cast<void>(reserved);
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  // Rows that began meanwhile have given back only what was reserved by then.
  if (!bucket.table.has_rows()) return;
  static_cast<void>(Guarded([&] { return GiveBackAhead(bucket_number); }));
}

Status LogWriter::GiveBackAhead(uint32_t number) {
  const SlotTable& table = context_.buckets[number].table;
  const SlotFiles& slots = context_.files.slots;
  const uint64_t first_slot = table.rows().size() * table.row_records();
  const uint64_t end_slot = slots.SlotEnd(number);
  if (first_slot >= end_slot) return Status::Ok();
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      slots.PunchValues(number, first_slot, end_slot - first_slot, &supported));
  return slots.PunchKeys(number, first_slot, end_slot - first_slot, &supported);
}

std::vector<SlotPiece> LogWriter::PiecesOf(uint32_t number, uint64_t* begin, uint64_t end) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  *begin = std::clamp(bucket.synced_watermark, *begin, end);
  std::vector<SlotPiece> pieces;
  for (uint64_t next = *begin; next < end;) {
    pieces.push_back(bucket.table.PieceFrom(next, end));
    ENGINE_RACE_ASSERT(pieces.back().count != 0);
    next += pieces.back().count;
  }
  return pieces;
}

Status LogWriter::FlushLogs() {
  const auto dirty_count =
      static_cast<uint32_t>(std::count(dirty_files_.begin(), dirty_files_.end(), true));
  const uint32_t thread_count =
      std::clamp(dirty_count / kFilesPerFlushThread, uint32_t{1}, kMaxFlushThreads);
  NumberQueue numbers(static_cast<uint32_t>(dirty_files_.size()));
  ENGINE_RACE_RETURN_IF_ERROR(RunParallel("er-flush", thread_count, [&](uint32_t) {
    for (uint32_t i = 0; numbers.Take(&i);) ENGINE_RACE_RETURN_IF_ERROR(FlushLog(i));
    return Status::Ok();
  }));
  return FlushRows();
}

Status LogWriter::FlushLog(uint32_t number) {
  if (!dirty_files_[number].exchange(false)) return Status::Ok();
  const SlotFiles& slots = context_.files.slots;
  return FlushAlone(number < slots.file_count() ? slots.key_file(number)
                                                : slots.value_file(number - slots.file_count()));
}

Status LogWriter::FlushRows() {
  // First: rows lie where the table says.
  ENGINE_RACE_RETURN_IF_ERROR(
      PoisonUnlessFlushed(Guarded([&] { return context_.files.slots.table().Flush(); })));
  // Acquire pairs with the release in RowKeeper::EnsureFile.
  if (!context_.has_row_file.load(std::memory_order_acquire)) return Status::Ok();
  return Flush(context_.files.rows);
}

Status LogWriter::FlushFound() {
  // Acquire pairs with the release below.
  if (has_flushed_found_.load(std::memory_order_acquire)) return Status::Ok();
  const std::lock_guard<std::mutex> lock(found_mutex_);
  if (has_flushed_found_.load(std::memory_order_acquire)) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(Flush(context_.files.counts));
  ENGINE_RACE_RETURN_IF_ERROR(FlushRows());
  has_flushed_found_.store(true, std::memory_order_release);
  return Status::Ok();
}

Status LogWriter::Flush(const io::File& file) noexcept {
  const std::lock_guard<std::mutex> one_at_a_time(flush_mutex_);
  // The kernel reports pages that it has lost to one flush alone, perhaps to another thread's.
  if (context_.latch.latched()) return Guarded([this] { return context_.latch.status(); });
  return FlushAlone(file);
}

Status LogWriter::FlushAlone(const io::File& file) noexcept {
  const LatencyTimer timer(context_.flushes);
  // Relaxed: a statistic.
  flush_count_.fetch_add(1, std::memory_order_relaxed);
  return PoisonUnlessFlushed(Guarded([&] { return file.DataSync(); }));
}

Status LogWriter::PoisonUnlessFlushed(const Status& flushed) noexcept {
  if (flushed.ok()) return Status::Ok();
  Status failure = CopyAs(Code::kIOError, flushed);
  Poison(failure);
  return failure;
}

void LogWriter::Poison(const Status& failure) noexcept {
  context_.latch.Latch(failure);
  PutInDoubt();
}

// One bucket without a page cache id is enough for the next opening, so this may end halfway. It
// goes past the mapping: the file system may be gone, and a store would be a SIGBUS.
void LogWriter::PutInDoubt() noexcept {
  const Status noted = Guarded([this] {
    Status first_failure;
    for (uint32_t bucket = 0; bucket < context_.geometry().bucket_count; ++bucket) {
      if (context_.buckets[bucket].damaged) continue;
      Status written =
          context_.staging.WriteWord(bucket, format::WordKind::kPageCache, /*payload=*/0);
      if (first_failure.ok()) first_failure = std::move(written);
    }
    return first_failure;
  });
  if (noted.ok()) return;
  static_cast<void>(Guarded([&] {
    Log(context_.options.log, LogLevel::kError,
        "the next opening may not be told to verify what is not synced: " + noted.ToString());
    return Status::Ok();
  }));
}

}  // namespace engine_race
