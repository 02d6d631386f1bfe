#include "engine_race/log/row_keeper.h"

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
    ENGINE_RACE_RETURN_IF_ERROR(CreateRowFile(files, context_.options.file_mode, &made));
    files.rows = std::move(made);
  }
  StoreIdentity identity = files.identity;
  identity.has_rows = true;
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteManifest(files.directory.get(), identity, context_.options.file_mode));
  files.identity.has_rows = true;
  context_.has_row_file.store(true, std::memory_order_release);
  return Status::Ok();
}

// The rows are durable before the head that makes them count.
Status RowKeeper::BeginRows(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(!bucket.table.has_rows() && !bucket.damaged);
  SlotTable table(context_.geometry());
  table.BeginRows(bucket.record_count);
  auto numbers = std::make_unique<RunNumbers>(context_.geometry().rows_per_bucket(),
                                              context_.geometry().row_records());
  for (const auto& [run, row] : table.runs()) numbers->SetRun(row, run);
  std::vector<uint64_t> births(table.rows().size());
  std::vector<uint64_t> ends(table.rows().size(), kUnknownRowEnd);
  for (uint32_t row = 0; row < table.rows().size(); ++row) {
    ENGINE_RACE_RETURN_IF_ERROR(WriteRow(context_.files, number, row, table.rows()[row]));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  Status begun =
      Guarded([&] { return WriteRowsHead(context_.files, number, table.rows().size()); });
  // After other failures the head may count. No row would have the records that come.
  if (!begun.ok() && begun.code() != Code::kFull) context_.latch.Latch(begun);
  ENGINE_RACE_RETURN_IF_ERROR(begun);
  bucket.table = std::move(table);
  bucket.row_births = std::move(births);
  bucket.row_ends = std::move(ends);
  // Release, here and in Extend, pairs with the acquire in Bucket::SlotEnd.
  bucket.published_row_end.store(bucket.table.rows().size(), std::memory_order_release);
  bucket.owned_run_numbers = std::move(numbers);
  // Release pairs with the acquire in Bucket::Logged.
  bucket.run_numbers.store(bucket.owned_run_numbers.get(), std::memory_order_release);
  return Status::Ok();
}

bool RowKeeper::HasRoom(uint32_t number, uint64_t count, uint64_t* row_count) const {
  const Bucket& bucket = context_.buckets[number];
  *row_count = 0;
  if (!bucket.table.has_rows()) return bucket.record_count + count <= RegionEnd(bucket);
  const uint64_t row_records = bucket.table.row_records();
  const uint64_t end = RoundUp(bucket.record_count + count, row_records);
  *row_count = end / row_records - std::min(end / row_records, NextRun(number));
  if (*row_count == 0) return true;
  return end >> format::kSequenceBits == 0 && *row_count + kMoverRows <= FreeRowCount(number);
}

// Rows past the last record wait for those that come.
Status RowKeeper::MakeRoomFor(uint32_t number, uint64_t count) {
  uint64_t row_count = 0;
  if (!HasRoom(number, count, &row_count)) return RegionFull(number);
  for (; row_count > 0; --row_count) ENGINE_RACE_RETURN_IF_ERROR(TakeTailRow(number));
  return Status::Ok();
}

// The tail leaves the last free row to a mover: without one, nothing could be freed any more.
Status RowKeeper::TakeTailRow(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  const uint64_t run = NextRun(number);
  // The count behind the last record must fit as well: rows of moved records have it.
  if ((run + 1) * bucket.table.row_records() >> format::kSequenceBits != 0) {
    return Status::Full("bucket " + std::to_string(number) + " has used all sequence numbers");
  }
  if (FreeRowCount(number) <= kMoverRows) return RegionFull(number);
  uint32_t index = 0;
  ENGINE_RACE_RETURN_IF_ERROR(TakeAnyRow(number, &index));
  const Row row = {.kind = format::RowKind::kRun, .number = run};
  Status written = Guarded([&] { return Write(number, index, row); });
  if (written.ok()) return written;
  // Whether the file has the row is not known after another failure.
  if (CanBeTriedAgain(written)) ReturnRow(number, index);
  context_.latch.LatchIfLasting(written);
  return written;
}

Status RowKeeper::TakeRow(uint32_t number, uint64_t kept_count, uint32_t* row) {
  if (FreeRowCount(number) <= kept_count) return RegionFull(number);
  return TakeAnyRow(number, row);
}

Status RowKeeper::TakeAnyRow(uint32_t number, uint32_t* row) {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(bucket.table.has_rows());
  if (!bucket.free_rows.empty()) {
    *row = *bucket.free_rows.begin();
    bucket.free_rows.erase(bucket.free_rows.begin());
    return Status::Ok();
  }
  const auto fresh = static_cast<uint32_t>(bucket.table.rows().size());
  if (fresh == context_.geometry().rows_per_bucket()) return RegionFull(number);
  ENGINE_RACE_RETURN_IF_ERROR(Extend(number, fresh));
  *row = fresh;
  return Status::Ok();
}

// The head reaches a row before its words are written.
Status RowKeeper::Extend(uint32_t number, uint32_t index) {
  Bucket& bucket = context_.buckets[number];
  bucket.row_births.resize(index + 1);
  bucket.row_ends.resize(index + 1);
  ENGINE_RACE_RETURN_IF_ERROR(WriteRow(context_.files, number, index, Row()));
  ENGINE_RACE_RETURN_IF_ERROR(WriteRowsHead(context_.files, number, index + 1));
  bucket.table.SetRow(index, Row());
  bucket.published_row_end.store(index + 1, std::memory_order_release);
  return Status::Ok();
}

void RowKeeper::ReturnRow(uint32_t number, uint32_t row) {
  context_.buckets[number].free_rows.insert(row);
}

Status RowKeeper::Write(uint32_t number, uint32_t index, const Row& row) {
  Bucket& bucket = context_.buckets[number];
  const bool is_new = bucket.table.rows()[index].free() && !row.free();
  // Nothing is thrown once the file may have the row.
  SlotTable::Runs run;
  if (row.is_run()) run.emplace(row.number, index);
  // Readers find the slots of the run only after this.
  if (row.is_run()) {
    bucket.owned_run_numbers->SetRun(index, row.number);
  } else {
    bucket.owned_run_numbers->Clear(index);
  }
  const Status written = Guarded([&] { return WriteRow(context_.files, number, index, row); });
  // A failure without memory for its words.
  if (written.code() == Code::kOutOfMemory) return Status(Code::kIOError, {});
  ENGINE_RACE_RETURN_IF_ERROR(written);
  if (is_new) {
    bucket.row_births[index] = bucket.listener == nullptr ? 0 : bucket.listener->CurrentVersion();
  }
  bucket.table.SetRow(index, row, std::move(run));
  return Status::Ok();
}

}  // namespace engine_race
