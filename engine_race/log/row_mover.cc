#include "engine_race/log/row_mover.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/logged_records.h"

namespace engine_race {
namespace {

Status TakeSeal(uint64_t* seal) {
  while (*seal == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::RandomWord(seal));
    *seal &= (uint64_t{1} << format::kSealBits) - 1;
  }
  return Status::Ok();
}

}  // namespace

void RowMover::AdoptMoves() {
  for (uint32_t number = 0; number < context_.geometry().bucket_count; ++number) {
    const std::vector<Row>& rows = context_.buckets[number].table.rows();
    for (uint32_t row = 0; row < rows.size(); ++row) {
      if (rows[row].is_moving()) published_.push_back({number, row});
    }
  }
}

Status RowMover::Begin(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  if (bucket.HasRows()) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(rows_.EnsureFile());
  std::unique_lock<std::mutex> lock(bucket.mutex);
  // The records of a batch that holds the bucket have slots already, and no rows.
  bucket.AwaitRelease(&lock);
  ENGINE_RACE_RETURN_IF_ERROR(rows_.BeginRows(number));
  // Under the lock: an append could take the row behind the last one, and write to it.
  return writer_.GiveBackAhead(number);
}

uint64_t RowMover::FreeRowCount(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  return rows_.FreeRowCount(number);
}

bool RowMover::HasRoom(uint32_t number, uint64_t count) const {
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  return rows_.HasRoom(number, count);
}

bool RowMover::HasWaiting(uint32_t number) const {
  const Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  return !bucket.unreleased.empty();
}

bool RowMover::IsReleasing(uint32_t number) const {
  const Bucket& bucket = context_.buckets[number];
  return bucket.untried_count.load(std::memory_order_relaxed) != 0 ||
         bucket.cut_count.load(std::memory_order_relaxed) != 0;
}

Status RowMover::TakeRow(uint32_t number, uint64_t kept_count, uint32_t* row) {
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  return rows_.TakeRow(number, kept_count, row);
}

void RowMover::ReturnRow(uint32_t number, uint32_t row) noexcept {
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  rows_.ReturnRow(number, row);
}

Status RowMover::WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                             const void* values) {
  const SlotPiece piece = {slot, slot_count};
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write(
      [&] {
        return writer_.WriteValues(bucket, {&piece, 1}, values);
      },
      SpaceReserve::kLeftByValues));
  moved_bytes_.fetch_add(slot_count * context_.geometry().slot_bytes(), std::memory_order_relaxed);
  return Status::Ok();
}

Status RowMover::Publish(uint32_t number, uint32_t row, uint64_t horizon,
                         std::span<KeyRecord> records) {
  bool may_be_written = false;
  Status published =
      Guarded([&] { return PublishTaken(number, row, horizon, records, &may_be_written); });
  if (!published.ok() && !may_be_written) ReturnRow(number, row);
  return published;
}

Status RowMover::PublishTaken(uint32_t number, uint32_t row, uint64_t horizon,
                              std::span<KeyRecord> records, bool* may_be_written) {
  Bucket& bucket = context_.buckets[number];
  const uint32_t row_records = context_.geometry().row_records();
  ENGINE_RACE_ASSERT(!records.empty() && records.size() <= row_records);
  uint64_t seal = 0;
  ENGINE_RACE_RETURN_IF_ERROR(TakeSeal(&seal));
  const uint64_t first_slot = uint64_t{row} * row_records;
  Region keys;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(row_records * format::kKeyEntryBytes,
                                               /*huge_pages=*/false, &keys,
                                               context_.placement.memory()));
  std::memset(keys.data(), 0, keys.size());
  const auto* const entries = reinterpret_cast<const format::KeyEntry*>(keys.data());
  for (size_t i = 0; i < records.size(); ++i) {
    const format::KeyEntry entry =
        SlotTable::EncodeMoved(context_.codec(number), records[i], first_slot + i, seal);
    std::memcpy(keys.data() + i * format::kKeyEntryBytes, &entry, sizeof(entry));
    records[i].slot = static_cast<uint32_t>(first_slot + i);
  }
  ENGINE_RACE_RETURN_IF_ERROR(context_.reserve.Write(
      [&] { return writer_.WriteKeys(number, first_slot, row_records, entries); }));
  std::vector<uint64_t> newer_keys;
  uint64_t seen_count = horizon;
  std::unique_lock<std::mutex> lock(bucket.mutex);
  // Records that were appended meanwhile are newer than those that are moved. The entries of most
  // are read without the lock. The room that the listener has made for a batch is the batch's.
  bucket.AwaitRelease(&lock);
  while (bucket.listener != nullptr && seen_count < bucket.LoggedCount(LaneKind::kKeys)) {
    lock.unlock();
    ENGINE_RACE_RETURN_IF_ERROR(ReadNewerKeys(number, &seen_count, &newer_keys));
    lock.lock();
    bucket.AwaitRelease(&lock);
  }
  while (bucket.listener != nullptr && seen_count < bucket.record_count) {
    format::KeyEntry entry;
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.Read(
        LaneKind::kKeys, number, bucket.keys.places_word(), seen_count, 1, &entry));
    ENGINE_RACE_RETURN_IF_ERROR(AddNewerKey(number, entry, seen_count, &newer_keys));
    ++seen_count;
  }
  std::sort(newer_keys.begin(), newer_keys.end());
  // The first record of which the index is told has room there.
  if (bucket.listener != nullptr) ENGINE_RACE_RETURN_IF_ERROR(bucket.listener->Prepare(number));
  const Row moved = {.kind = format::RowKind::kMoving,
                     .path = {},
                     .held = SlotBits::First(static_cast<uint32_t>(records.size())),
                     .horizon = horizon,
                     .seal = seal};
  {
    const std::lock_guard<std::mutex> list(mutex_);
    published_.push_back({number, row});
    *may_be_written = true;
    Status written = Guarded([&] { return rows_.Write(number, row, moved); });
    if (!written.ok()) {
      published_.pop_back();
      *may_be_written = !CanBeTriedAgain(written);
      context_.latch.LatchIfLasting(written);
      return written;
    }
  }
  size_t told_count = 0;
  Status told = Guarded([&] { return TellIndex(number, records, newer_keys, &told_count); });
  if (!told.ok()) KeepFirst(number, row, static_cast<uint32_t>(told_count));
  return told;
}

// Under the bucket's lock. *told_count: how many of the records the index knows at their new slots.
// It knows the others at their old ones.
Status RowMover::TellIndex(uint32_t number, std::span<const KeyRecord> records,
                           std::span<const uint64_t> newer_keys, size_t* told_count) {
  AppendListener* const listener = context_.buckets[number].listener;
  bool has_room = true;
  for (const KeyRecord& record : records) {
    const bool is_newest = !std::binary_search(newer_keys.begin(), newer_keys.end(), record.key);
    if (listener != nullptr && is_newest) {
      if (!has_room) ENGINE_RACE_RETURN_IF_ERROR(listener->Prepare(number));
      listener->OnMove(number, record);
      has_room = false;
    }
    ++*told_count;
  }
  return Status::Ok();
}

// Under the bucket's lock: the row keeps its first `count` records. A cleaner takes the index to
// know all records of a row at their slots there. So it would free slots that the index names.
void RowMover::KeepFirst(uint32_t number, uint32_t index, uint32_t count) noexcept {
  const Status kept = Guarded([&] {
    Row row = context_.buckets[number].table.rows()[index];
    row.held = SlotBits::First(count);
    return rows_.Write(number, index, row);
  });
  // Nothing is freed any more.
  if (!kept.ok()) context_.latch.Latch(kept);
}

// Any key may be that of a record whose entry is damaged, so no record is known to be the newest.
Status RowMover::AddNewerKey(uint32_t number, const format::KeyEntry& entry, uint64_t sequence,
                             std::vector<uint64_t>* keys) const {
  KeyRecord record;
  if (!SlotTable::DecodeAppended(context_.codec(number), entry, sequence, &record)) {
    return Status::Corruption("bucket " + std::to_string(number) + ": the key entry of record " +
                              std::to_string(sequence) + " does not match its check");
  }
  keys->push_back(record.key);
  return Status::Ok();
}

// The keys of the appended records from *from on, which moves behind them.
Status RowMover::ReadNewerKeys(uint32_t number, uint64_t* from, std::vector<uint64_t>* keys) const {
  BucketCut cut;
  ENGINE_RACE_RETURN_IF_ERROR(reader_.LookAtBucket(number, *from, &cut));
  std::array<format::KeyEntry, format::kPageEntries> entries;
  for (uint64_t sequence = *from; sequence < cut.logged_key_watermark;) {
    const uint64_t end = std::min<uint64_t>(sequence + entries.size(), cut.logged_key_watermark);
    ENGINE_RACE_RETURN_IF_ERROR(
        ReadLoggedKeys(context_.files, number, cut.table, sequence, end, entries.data()));
    for (const uint64_t begin = sequence; sequence < end; ++sequence) {
      ENGINE_RACE_RETURN_IF_ERROR(AddNewerKey(number, entries[sequence - begin], sequence, keys));
    }
  }
  for (size_t i = 0; i < cut.staged_keys.size(); ++i) {
    ENGINE_RACE_RETURN_IF_ERROR(
        AddNewerKey(number, cut.staged_keys[i], cut.first_staged() + i, keys));
  }
  *from = cut.record_count;
  return Status::Ok();
}

void RowMover::Describe(uint32_t number, uint32_t row, FreedSlots* freed) const {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  freed->bucket = number;
  freed->row = row;
  freed->first_version = bucket.row_versions[row];
  freed->version = bucket.views == nullptr ? 0 : bucket.views->CurrentVersion();
}

uint64_t RowMover::BytesOf(const FreedSlots& freed) const {
  return freed.slots.count() * uint64_t{context_.geometry().slot_bytes()};
}

Status RowMover::Free(std::span<const FreedSlots> freed) {
  return Guarded([&] {
    for (const FreedSlots& each : freed) FreeOne(each);
    return Status::Ok();
  });
}

// Slots that are marked and not listed would wait for ever, so the memory for all comes first.
void RowMover::FreeOne(const FreedSlots& freed) {
  std::map<uint32_t, SlotBits> unsettled = {{freed.row, {}}};
  std::map<uint32_t, SlotBits> unreleased = unsettled;
  Bucket& bucket = context_.buckets[freed.bucket];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  const std::lock_guard<std::mutex> list(mutex_);
  unsettled_.push_back(freed);
  bucket.unsettled.merge(unsettled);
  bucket.unreleased.merge(unreleased);
  for (auto* const slots : {&bucket.unsettled[freed.row], &bucket.unreleased[freed.row]}) {
    *slots = *slots | freed.slots;
  }
  unsettled_bytes_.fetch_add(BytesOf(freed), std::memory_order_relaxed);
}

Status RowMover::Settle() {
  const std::lock_guard<std::mutex> settling(settle_mutex_);
  std::vector<PublishedRow> published;
  std::list<FreedSlots> freed;
  {
    const std::lock_guard<std::mutex> list(mutex_);
    if (published_.empty() && unsettled_.empty() && !IsReturning()) return Status::Ok();
    published = published_;
    freed.assign(unsettled_.begin(), unsettled_.end());
  }
  if (!published.empty() || !freed.empty()) ENGINE_RACE_RETURN_IF_ERROR(syncer_.SyncLogged());
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushFound());
  for (const PublishedRow& each : published) {
    Bucket& bucket = context_.buckets[each.bucket];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    Row row = bucket.table.rows()[each.row];
    if (!row.is_moving()) continue;
    row.kind = format::RowKind::kUsed;
    ENGINE_RACE_RETURN_IF_ERROR(rows_.Write(each.bucket, each.row, row));
  }
  for (const FreedSlots& each : freed) ENGINE_RACE_RETURN_IF_ERROR(FreeInFile(each));
  ENGINE_RACE_RETURN_IF_ERROR(returner_.BeforeFlush());
  ENGINE_RACE_RETURN_IF_ERROR(writer_.FlushRows());
  returner_.AfterFlush();
  uint64_t bytes = 0;
  for (const FreedSlots& each : freed) {
    bytes += BytesOf(each);
    context_.buckets[each.bucket].untried_count.fetch_add(1, std::memory_order_relaxed);
  }
  const std::lock_guard<std::mutex> list(mutex_);
  published_.erase(published_.begin(),
                   published_.begin() + static_cast<ptrdiff_t>(published.size()));
  unsettled_.erase(unsettled_.begin(), unsettled_.begin() + static_cast<ptrdiff_t>(freed.size()));
  unreleased_.splice(unreleased_.end(), freed);
  unsettled_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  unreleased_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return Status::Ok();
}

// A call that is done again after a failure changes nothing.
Status RowMover::FreeInFile(const FreedSlots& freed) {
  Bucket& bucket = context_.buckets[freed.bucket];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  Row row = bucket.table.rows()[freed.row];
  const auto unsettled = bucket.unsettled.find(freed.row);
  if (unsettled == bucket.unsettled.end()) return Status::Ok();
  bucket.table_at_cut.See(context_.cuts.number(), bucket.table);
  row.held = row.held - freed.slots;
  if (row.held.empty() && !row.RunReaches(bucket.synced_watermark)) row = row.Freed();
  ENGINE_RACE_RETURN_IF_ERROR(rows_.Write(freed.bucket, freed.row, row));
  unsettled->second = unsettled->second - freed.slots;
  if (unsettled->second.empty()) bucket.unsettled.erase(unsettled);
  return Status::Ok();
}

std::map<uint32_t, SlotBits> RowMover::UnsettledSlots(uint32_t number) const {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  return bucket.unsettled;
}

uint64_t RowMover::GapCount(uint32_t number) const {
  const std::lock_guard<std::mutex> lock(context_.buckets[number].mutex);
  return context_.buckets[number].gap_count;
}

void RowMover::LimitRows(uint32_t number, uint64_t row_limit) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  bucket.row_limit = row_limit;
  // The tail fills whole rows again.
  if (bucket.table.has_rows() && rows_.FreeRowCount(number) > 1) bucket.LetFill(false);
  bucket.WakeAwaitingRelease();
}

bool RowMover::LetGrow(uint32_t number, uint64_t count) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  bucket.row_limit = ~uint64_t{0};
  if (!bucket.table.has_rows() || !rows_.HasRoom(number, count)) return false;
  const uint64_t row_records = bucket.table.row_records();
  const uint64_t used = bucket.UsedRowCount();
  // Each time that it grows a cleaning was in vain.
  bucket.row_limit = used + std::max(count / row_records + 1, used / 16);
  bucket.WakeAwaitingRelease();
  return true;
}

bool RowMover::LetFill(uint32_t number, uint64_t count) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  if (!bucket.table.has_rows() &&
      bucket.record_count + count > context_.geometry().bucket_capacity_records) {
    return false;
  }
  const bool might_fill = bucket.may_fill_region;
  bucket.LetFill(true);
  bucket.WakeAwaitingRelease();
  if (rows_.HasRoom(number, count)) return true;
  // A smaller write may need it.
  bucket.LetFill(might_fill);
  return false;
}

}  // namespace engine_race
