#include "engine_race/log/large_batches.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/batch_holds.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/parallel_work.h"

namespace engine_race {
namespace {

// How many records are written together: 1 MiB of values, at least a few.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kLeastPieceRecords = 4;
uint32_t PieceRecords(const Geometry& geometry) {
  return static_cast<uint32_t>(std::max(geometry.RecordsIn(kPieceBytes), kLeastPieceRecords));
}

// Counts one for as long as it lives. Relaxed: advice.
class CountedIn {
 public:
  explicit CountedIn(std::atomic<uint32_t>* count) : count_(*count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  CountedIn(const CountedIn&) = delete;
  CountedIn& operator=(const CountedIn&) = delete;
  ~CountedIn() { count_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t>& count_;
};

format::KeyEntry EntryOf(const EntryCodec& codec, const BatchPlan& plan, const BatchPart& part,
                         uint32_t item) {
  KeyRecord record = plan.RecordOf(part, item);
  record.in_large_batch = true;
  return SlotTable::EncodeAppended(codec, record, record.sequence);
}

}  // namespace

Status LargeBatches::Write(std::span<const WriteBatch::Record> records) {
  const CountedIn under_way(&under_way_count_);
  const std::lock_guard<std::mutex> one_at_a_time(mutex_);
  BatchPlan plan;
  ENGINE_RACE_RETURN_IF_ERROR(batches_.Prepare(records, &plan));
  if (context_.latch.latched()) return context_.latch.status();
  BatchHolds holds(&context_, &groups_, &plan);
  bool may_be_committed = false;
  Status written = Guarded([&] {
    Status secured = batches_.intents().SecureLarge();
    // It flushes a file and its name.
    if (!secured.ok() && !CanBeTriedAgain(secured)) writer_.Poison(secured);
    ENGINE_RACE_RETURN_IF_ERROR(secured);
    ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(/*too_large=*/nullptr));
    return WriteHeld(plan, &may_be_committed);
  });
  if (written.ok() || !may_be_committed) return written;
  // Before the holds end: no later record may get a sequence number of the batch, because the next
  // opening may find the batch. The caller must not get kFull or kOutOfMemory, which say that
  // nothing was written.
  context_.latch.Latch(written);
  return CanBeTriedAgain(written) ? CopyAs(Code::kIOError, written) : std::move(written);
}

// With all buckets held. Ok once the batch is committed. *may_be_committed, after a failure: the
// next opening may find it so.
Status LargeBatches::WriteHeld(const BatchPlan& plan, bool* may_be_committed) {
  // The commit moves the synced watermarks past all earlier records of the buckets. So these are
  // synced first.
  ENGINE_RACE_RETURN_IF_ERROR(syncer_.SyncHeld(plan.parts()));
  for (const BatchPart& part : plan.parts()) ENGINE_RACE_RETURN_IF_ERROR(AwaitIdle(part));
  Status written = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(WriteRecords(plan));
    ENGINE_RACE_RETURN_IF_ERROR(syncer_.FlushLogs());
    return Commit(plan, may_be_committed);
  });
  if (!written.ok()) {
    context_.latch.LatchIfLasting(written);
    if (!*may_be_committed && CanBeTriedAgain(written)) Discard(plan);
    return written;
  }
  CountAll(plan);
  return written;
}

// Waits until no reader pins a staged record of the bucket and no group of it is being written. All
// its records are synced, so readers find them in the logs and pin no other place.
Status LargeBatches::AwaitIdle(const BatchPart& part) {
  Bucket& bucket = context_.buckets[part.bucket];
  std::unique_lock<std::mutex> lock(bucket.mutex);
  ENGINE_RACE_ASSERT(bucket.held && bucket.record_count == part.first_sequence &&
                     bucket.synced_watermark == bucket.record_count);
  while (!bucket.values.IsIdle() || !bucket.keys.IsIdle()) {
    if (context_.latch.latched()) return context_.latch.status();
    bucket.written.wait(lock);
  }
  return Status::Ok();
}

// By several threads: a bucket's part may be small, and its page of entries is read first.
Status LargeBatches::WriteRecords(const BatchPlan& plan) {
  const auto part_count = static_cast<uint32_t>(plan.parts().size());
  const uint32_t piece_records = PieceRecords(context_.geometry());
  return RunWorkers(part_count, [&](NumberQueue* numbers) {
    Region values;
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(uint64_t{piece_records} * context_.geometry().slot_bytes(),
                         /*huge_pages=*/false, &values, context_.placement.memory()));
    for (uint32_t i = 0; numbers->Take(&i);) {
      const BatchPart& part = plan.parts()[i];
      for (uint32_t item = part.begin, end = item; item < part.end; item = end) {
        end = item + std::min(part.end - item, piece_records);
        ENGINE_RACE_RETURN_IF_ERROR(WritePiece(plan, part, item, end, values.data()));
      }
    }
    return Status::Ok();
  });
}

// Writes the items [item, end) of a part. `values` has room for theirs.
Status LargeBatches::WritePiece(const BatchPlan& plan, const BatchPart& part, uint32_t item,
                                uint32_t end, char* values) {
  const EntryCodec codec = context_.codec(part.bucket);
  std::vector<format::KeyEntry> entries;
  entries.reserve(end - item);
  uint64_t sequence = part.SequenceOf(item);
  const std::vector<SlotPiece> pieces =
      writer_.PiecesOf(part.bucket, &sequence, sequence + (end - item));
  const Geometry& geometry = context_.geometry();
  for (char* to = values; item < end; ++item, to += geometry.slot_bytes()) {
    const char* const value = plan.record(item).value;
    if (value != nullptr) {
      std::memcpy(to, value, geometry.value_bytes());
    } else {
      std::memset(to, 0, geometry.value_bytes());
    }
    entries.push_back(EntryOf(codec, plan, part, item));
  }
  ENGINE_RACE_RETURN_IF_ERROR(writer_.WriteValues(part.bucket, pieces, values));
  return writer_.PutKeys(part.bucket, pieces, entries.data());
}

Status LargeBatches::Commit(const BatchPlan& plan, bool* may_be_committed) {
  // A flush that failed for another thread may have been one of the batch's.
  if (context_.latch.latched()) return context_.latch.status();
  std::vector<format::BatchIntentEntry> counts;
  plan.FillCounts(&counts);
  // A full disk refuses the words of the counts now, and not once the batch is committed.
  for (const BatchPart& part : plan.parts()) {
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.SecureCount(part.bucket, part.first_sequence));
  }
  *may_be_committed = true;
  Status stored = batches_.intents().Commit(format::kLargeIntent, counts);
  *may_be_committed = stored.code() != Code::kFull;
  ENGINE_RACE_RETURN_IF_ERROR(stored);
  return writer_.Flush(batches_.intents().file());
}

// The batch is committed, so its records count even where their words cannot be written. The next
// opening then writes these words.
void LargeBatches::CountAll(const BatchPlan& plan) noexcept {
  context_.batches.Enter();
  {
    const TellingOfBatch telling(plan.parts());
    for (const BatchPart& part : plan.parts()) Count(plan, part);
  }
  context_.batches.Leave();
  for (const BatchPart& part : plan.parts()) TellOfGroups(plan, part);
  // After a failure the intent stays: an opening that finds it makes the counts durable.
  if (!writer_.Flush(context_.files.counts).ok() || context_.latch.latched()) return;
  static_cast<void>(Guarded([this] { return batches_.intents().Clear(format::kLargeIntent); }));
}

void LargeBatches::Count(const BatchPlan& plan, const BatchPart& part) noexcept {
  Bucket& bucket = context_.buckets[part.bucket];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  const uint64_t count = part.end_sequence();
  // The word of the page cache stays as it is.
  BucketState state;
  state.SetLogged(context_.geometry(), count);
  bucket.at_cut.See(context_.cuts.number(), bucket.record_count);
  const Status published = Guarded(
      [&] { return context_.staging.WriteLine(part.bucket, state, format::WordKind::kPageCache); });
  if (!published.ok()) context_.latch.Latch(published);
  const uint64_t end_before = bucket.FoundBySlotEnd();
  const bool adopted = bucket.Adopt(context_.geometry(), state);
  ENGINE_RACE_ASSERT(adopted);
  bucket.CountMoreGaps(end_before);
  TellOfRecords(plan, part, bucket.table);
  // Release pairs with the acquire in Bucket::RecordCount.
  bucket.published_count.store(count, std::memory_order_release);
  // Place 0 may hold entries of an earlier group. KeyGroupListener must see zeros instead of them.
  static_cast<void>(Guarded([&] {
    return context_.staging.ClearKeys(part.bucket, /*place=*/0, bucket.keys.IndexOf(count));
  }));
}

// Tells reclaim of the groups of entries that the batch has filled.
void LargeBatches::TellOfGroups(const BatchPlan& plan, const BatchPart& part) noexcept {
  // Acquire pairs with the release in BucketLog::set_key_group_listener.
  KeyGroupListener* const listener = context_.key_group_listener.load(std::memory_order_acquire);
  if (listener == nullptr) return;
  const EntryCodec codec = context_.codec(part.bucket);
  const uint64_t end = part.end_sequence();
  const uint64_t count = context_.geometry().keys_per_group();
  std::array<format::KeyEntry, kMaxKeyGroupBytes / format::kKeyEntryBytes> group;
  for (uint64_t first = part.first_sequence / count * count; first + count <= end; first += count) {
    for (uint64_t sequence = first; sequence < first + count; ++sequence) {
      const bool is_own = sequence >= part.first_sequence;
      const auto item = static_cast<uint32_t>(part.begin + (sequence - part.first_sequence));
      group[sequence - first] = is_own ? EntryOf(codec, plan, part, item) : format::KeyEntry{};
    }
    listener->OnKeyGroup(part.bucket, std::span(group).first(count), first + count);
  }
}

// Gives back the space of a batch that was refused: the disk may be full. Its entries stay in the
// logs and count for nothing.
void LargeBatches::Discard(const BatchPlan& plan) noexcept {
  static_cast<void>(Guarded([&] {
    for (const BatchPart& part : plan.parts()) {
      uint64_t sequence = part.first_sequence;
      for (const SlotPiece& piece :
           writer_.PiecesOf(part.bucket, &sequence, sequence + part.size())) {
        bool supported = false;
        ENGINE_RACE_RETURN_IF_ERROR(
            context_.files.slots.PunchValues(part.bucket, piece.slot, piece.count, &supported));
      }
    }
    return Status::Ok();
  }));
}

}  // namespace engine_race
