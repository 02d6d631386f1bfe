#include "engine_race/log/row_keeper.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/row_file.h"

namespace engine_race {
namespace {

// Rows that the tail leaves free.
constexpr uint64_t kMoverRows = 1;
// A bucket that has fewer rows left than one of so many keeps the places of free ones.
constexpr uint64_t kKeptShare = 2;

}  // namespace

Status RowKeeper::RegionFull(uint32_t bucket) const {
  return Status::Full("bucket " + std::to_string(bucket) + " holds all the records it can");
}

Status RowKeeper::EnsureFile() {
  // Acquire pairs with the release below.
  if (context_.has_row_file.load(std::memory_order_acquire)) return Status::Ok();
  const std::lock_guard<std::mutex> lock(context_.manifest_mutex);
  if (context_.has_row_file.load(std::memory_order_acquire)) return Status::Ok();
  StoreFiles& files = context_.files;
  // After a failure the manifest may name the file already: it is not made anew.
  if (!files.rows.valid()) {
    io::File made;
    ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write(
        [&] { return CreateRowFile(files, context_.options.file_mode, &made); }));
    files.rows = std::move(made);
  }
  StoreIdentity identity = files.identity;
  identity.has_rows = true;
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write(
      [&] { return WriteManifest(files.directory.get(), identity, context_.options.file_mode); }));
  files.identity.has_rows = true;
  context_.has_row_file.store(true, std::memory_order_release);
  return Status::Ok();
}

Status RowKeeper::WriteInFile(uint32_t number, uint32_t index, const Row& row) {
  return context_.reserve.Write([&] { return WriteRow(context_.files, number, index, row); });
}

// The head reaches the last one of the first `row_end` rows that has a place and does not give it
// back.
Status RowKeeper::WriteHeadInFile(uint32_t number, uint64_t row_end, uint64_t births) {
  const std::set<uint32_t>& leaving = context_.buckets[number].leaving_rows;
  while (true) {
    row_end = PlacedRowEnd(context_.files, number, row_end);
    if (row_end == 0 || !leaving.contains(static_cast<uint32_t>(row_end - 1))) break;
    --row_end;
  }
  return context_.reserve.Write(
      [&] { return WriteRowsHead(context_.files, number, row_end, births); });
}

// Free rows follow `rows`, to the end of the bucket's segments, so that the next ones need no
// flush.
Status RowKeeper::WriteNewInFile(uint32_t number, uint32_t first, std::vector<Row> rows) {
  const Geometry& geometry = context_.geometry();
  const SlotFiles& slots = context_.files.slots;
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] {
    return slots.Give(number, first * uint64_t{geometry.row_records()},
                      rows.size() * geometry.row_records());
  }));
  const uint64_t row_end =
      std::min(slots.SlotEnd(number) / geometry.row_records(), geometry.rows_per_bucket());
  rows.resize(std::max(rows.size(), row_end - first));
  ENGINE_RACE_RETURN_IF_ERROR(
      context_.reserve.Write([&] { return WriteNewRows(context_.files, number, first, rows); }));
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  context_.buckets[number].durable_row_end = first + static_cast<uint32_t>(rows.size());
  return Status::Ok();
}

// The rows are durable before the head that makes them count.
Status RowKeeper::BeginRows(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(!bucket.table.has_rows() && !bucket.damaged);
  SlotTable table(context_.geometry());
  table.BeginRows(bucket.record_count);
  auto runs = std::make_unique<RunSlots>(context_.geometry().row_records());
  for (uint32_t row = 0; row < table.rows().size(); ++row) runs->Set(row, table.rows()[row]);
  std::vector<uint32_t> gaps(table.rows().size());
  std::vector<uint64_t> versions(table.rows().size());
  ENGINE_RACE_RETURN_IF_ERROR(WriteNewInFile(number, 0, table.rows()));
  Status begun = Guarded([&] { return WriteHeadInFile(number, table.rows().size(), 0); });
  // After other failures the head may count. No row would have the records that come.
  if (!begun.ok() && begun.code() != Code::kFull) context_.latch.Latch(begun);
  ENGINE_RACE_RETURN_IF_ERROR(begun);
  bucket.table = std::move(table);
  bucket.row_versions = std::move(versions);
  bucket.row_gaps = std::move(gaps);
  // Release, here and in Extend, pairs with the acquire in Bucket::SlotEnd.
  bucket.published_row_end.store(bucket.table.rows().size(), std::memory_order_release);
  bucket.owned_run_slots = std::move(runs);
  // Release pairs with the acquire in Bucket::Logged.
  bucket.run_slots.store(bucket.owned_run_slots.get(), std::memory_order_release);
  return Status::Ok();
}

bool RowKeeper::HasRoom(uint32_t number, uint64_t count) const {
  const Bucket& bucket = context_.buckets[number];
  if (!bucket.table.has_rows()) return bucket.record_count + count <= RegionEnd(bucket);
  const uint64_t end = bucket.record_count + count;
  const uint64_t first = FirstWithoutSlot(bucket);
  if (end <= first) return true;
  const uint64_t free_slots = TailRowCount(number) * bucket.table.row_records();
  return end >> format::kSequenceBits == 0 && end - first <= free_slots + bucket.gap_count;
}

// Rows past the last record wait for those that come.
Status RowKeeper::MakeRoomFor(uint32_t number, uint64_t count) {
  const Bucket& bucket = context_.buckets[number];
  if (!HasRoom(number, count)) return RegionFull(number);
  if (!bucket.table.has_rows()) return Status::Ok();
  while (FirstWithoutSlot(bucket) < bucket.record_count + count) {
    ENGINE_RACE_RETURN_IF_ERROR(TakeTailRow(number));
  }
  return Status::Ok();
}

// The tail fills the emptiest row first: its slots lie together most. It leaves the last free row
// to a mover: without one, nothing could be moved any more.
Status RowKeeper::TakeTailRow(uint32_t number) {
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushFound());
  Bucket& bucket = context_.buckets[number];
  const uint64_t first = FirstWithoutSlot(bucket);
  const uint32_t row_records = bucket.table.row_records();
  // The count behind the last record must fit as well: horizons have it.
  if ((first + row_records) >> format::kSequenceBits != 0) {
    return Status::Full("bucket " + std::to_string(number) + " has used all sequence numbers");
  }
  uint32_t index = 0;
  Row row;
  const bool is_filled_again = FindGaps(bucket, &index);
  if (is_filled_again) {
    if (bucket.table.births() >> format::kSequenceBits != 0) return RegionFull(number);
    row = bucket.table.rows()[index];
    row.path = bucket.GapsOf(index);
  } else {
    if (TailRowCount(number) == 0) return RegionFull(number);
    ENGINE_RACE_RETURN_IF_ERROR(TakeAnyRow(number, &index));
    row.path = SlotBits::First(row_records);
  }
  row.kind = format::RowKind::kUsed;
  row.number = first;
  row.held = row.held | row.path;
  Status written = Guarded([&] {
    // The run that the row had counts at the cut.
    if (is_filled_again) bucket.table_at_cut.See(context_.cuts.number(), bucket.table);
    return Write(number, index, row);
  });
  if (written.ok()) return written;
  // Whether the file has the row is not known after another failure.
  if (CanBeTriedAgain(written) && !is_filled_again) ReturnRow(number, index);
  context_.latch.LatchIfLasting(written);
  return written;
}

uint64_t RowKeeper::TailRowCount(uint32_t number) const {
  const Bucket& bucket = context_.buckets[number];
  const uint64_t used = bucket.UsedRowCount();
  const uint64_t free_row_count = FreeRowCount(number);
  return std::min(free_row_count - std::min(free_row_count, kMoverRows),
                  bucket.row_limit - std::min(bucket.row_limit, used));
}

bool RowKeeper::FindGaps(const Bucket& bucket, uint32_t* row) const {
  if (bucket.gap_count == 0) return false;
  const auto most = std::max_element(bucket.row_gaps.begin(), bucket.row_gaps.end());
  *row = static_cast<uint32_t>(most - bucket.row_gaps.begin());
  return *most != 0;
}

Status RowKeeper::TakeRow(uint32_t number, uint64_t kept_count, uint32_t* row) {
  if (FreeRowCount(number) <= kept_count) return RegionFull(number);
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushFound());
  return TakeAnyRow(number, row);
}

Status RowKeeper::TakeAnyRow(uint32_t number, uint32_t* row) {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(bucket.table.has_rows());
  if (bucket.table.births() >> format::kSequenceBits != 0) return RegionFull(number);
  if (bucket.free_rows.empty() && !bucket.bare_rows.empty()) {
    ENGINE_RACE_RETURN_IF_ERROR(PlaceBareRow(number));
  }
  if (bucket.free_rows.empty()) {
    const auto fresh = static_cast<uint32_t>(bucket.table.rows().size());
    if (fresh == context_.geometry().rows_per_bucket()) return RegionFull(number);
    ENGINE_RACE_RETURN_IF_ERROR(Extend(number, fresh));
  }
  *row = *bucket.free_rows.begin();
  bucket.taken_rows.insert(bucket.free_rows.extract(bucket.free_rows.begin()));
  return Status::Ok();
}

// The row is durable as a free one before the head reaches it. Its content comes last.
Status RowKeeper::Extend(uint32_t number, uint32_t index) {
  Bucket& bucket = context_.buckets[number];
  std::set<uint32_t> extended = {index};
  bucket.row_versions.resize(index + 1);
  bucket.row_gaps.resize(index + 1);
  if (index >= bucket.durable_row_end) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteNewInFile(number, index, {Row()}));
  }
  ENGINE_RACE_RETURN_IF_ERROR(WriteHeadInFile(number, index + 1, bucket.table.births()));
  bucket.table.SetRow(index, Row());
  bucket.published_row_end.store(index + 1, std::memory_order_release);
  bucket.free_rows.merge(extended);
  return Status::Ok();
}

// A follower that has seen these births reads anew where the rows lie.
Status RowKeeper::PlaceBareRow(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  const uint32_t row = *bucket.bare_rows.begin();
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write([&] {
    return PlaceRow(context_.files, number, row, [this] { return writer_.FlushRows(); });
  }));
  bucket.table.RaiseBirths(bucket.table.births() + 1);
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteHeadInFile(number, bucket.table.rows().size(), bucket.table.births()));
  bucket.free_rows.insert(bucket.bare_rows.extract(row));
  return Status::Ok();
}

// The file has these births before any place is given back: the rows that had them may be gone
// then.
Status RowKeeper::LeaveFree(uint32_t number, std::vector<uint32_t>* rows) {
  Bucket& bucket = context_.buckets[number];
  rows->assign(bucket.free_rows.begin(), bucket.free_rows.end());
  // None of them can be taken before two flushes are over.
  const uint64_t others = FreeRowCount(number) - rows->size();
  if (others < context_.geometry().rows_per_bucket() / kKeptShare) rows->clear();
  if (rows->empty()) return Status::Ok();
  bucket.table.RaiseBirths(bucket.table.births() + 1);
  bucket.leaving_rows.merge(bucket.free_rows);
  Status written = Guarded(
      [&] { return WriteHeadInFile(number, bucket.table.rows().size(), bucket.table.births()); });
  if (written.ok()) return written;
  for (const uint32_t row : *rows) bucket.free_rows.insert(bucket.leaving_rows.extract(row));
  rows->clear();
  return written;
}

void RowKeeper::ReturnRow(uint32_t number, uint32_t row) noexcept {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(bucket.taken_rows.contains(row));
  bucket.free_rows.insert(bucket.taken_rows.extract(row));
}

Status RowKeeper::Write(uint32_t number, uint32_t index, const Row& content) {
  Bucket& bucket = context_.buckets[number];
  const Row before = bucket.table.rows()[index];
  Row row = content.free() ? before.Freed() : content;
  const bool is_born = !row.free() && (before.free() || row.number != before.number ||
                                       (row.has_run() && !before.has_run()));
  row.birth = is_born ? bucket.table.births() + 1 : before.birth;
  if (row.is_moving() && is_born) row.moved_at = row.birth;
  ENGINE_RACE_ASSERT(row.moved_at <= row.birth);
  // Nothing is thrown once the file may have the row.
  SlotTable::Runs run;
  if (row.has_run()) run.emplace(row.number, index);
  // Readers find the slots of the run only after this.
  bucket.owned_run_slots->Set(index, row);
  Status written = Guarded([&] { return WriteInFile(number, index, row); });
  if (!written.ok()) bucket.owned_run_slots->Set(index, before);
  // A failure whose message found no memory.
  if (written.code() == Code::kOutOfMemory) return Status(Code::kIOError, {});
  ENGINE_RACE_RETURN_IF_ERROR(written);
  // Views of lower versions may show records that stay in the row.
  if (is_born && before.held.empty()) {
    bucket.row_versions[index] = bucket.views == nullptr ? 0 : bucket.views->CurrentVersion();
  }
  bucket.table.SetRow(index, row, std::move(run));
  bucket.taken_rows.erase(index);
  bucket.CountGaps(index);
  return Status::Ok();
}

}  // namespace engine_race
