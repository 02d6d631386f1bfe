#include "engine_race/log/batch_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/batch_holds.h"
#include "engine_race/log/entry_codec.h"

namespace engine_race {
namespace {

// The batches whose scratch is kept.
constexpr size_t kKeptScratch = 16;
// How many parts ahead their staging is prefetched.
constexpr size_t kPartsAhead = 2;

bool ChainFits(const Journal& journal, std::span<const WriteBatch::Record> records) {
  const auto values =
      std::count_if(records.begin(), records.end(),
                    [](const WriteBatch::Record& record) { return record.value != nullptr; });
  return journal.ChainFits(records.size(), static_cast<uint64_t>(values));
}

}  // namespace

void TellOfRecords(const BatchPlan& plan, const BatchPart& part, const SlotTable& table) noexcept {
  if (part.listener == nullptr) return;
  for (uint32_t item = part.begin; item < part.end; ++item) {
    KeyRecord record = plan.RecordOf(part, item);
    record.slot = static_cast<uint32_t>(table.SlotOf(record.sequence));
    part.listener->OnAppend(part.bucket, record);
  }
}

Status BatchWriter::Write(std::span<const WriteBatch::Record> records, Journal* journal,
                          bool* too_large) {
  *too_large =
      records.size() > kMaxStagedRecords || (journal != nullptr && !ChainFits(*journal, records));
  if (*too_large) return Status::Ok();
  std::unique_ptr<BatchScratch> scratch = TakeScratch();
  Status status = Prepare(records, &scratch->plan);
  if (status.ok()) status = WriteStaged(scratch.get(), journal, too_large);
  KeepScratch(std::move(scratch));
  return status;
}

Status BatchWriter::Prepare(std::span<const WriteBatch::Record> records, BatchPlan* plan) {
  if (records.size() > BatchPlan::kMaxRecords) {
    return Status::InvalidArgument("a batch has at most 2^32 - 1 entries, not " +
                                   std::to_string(records.size()));
  }
  // Acquire pairs with the release in EnsureReady.
  if (!ready_.load(std::memory_order_acquire)) ENGINE_RACE_RETURN_IF_ERROR(EnsureReady());
  plan->Fill(context_.geometry(), records);
  return Status::Ok();
}

// The first batch makes the file of intents.
Status BatchWriter::EnsureReady() {
  const std::lock_guard<std::mutex> lock(ready_mutex_);
  if (!intents_.is_open()) {
    if (context_.latch.latched()) return context_.latch.status();
    ENGINE_RACE_RETURN_IF_ERROR(
        intents_.Open(context_.files, context_.staging.mapped(), context_.options.file_mode));
  }
  // Release pairs with the acquire in Prepare.
  ready_.store(true, std::memory_order_release);
  return Status::Ok();
}

Status BatchWriter::WriteStaged(BatchScratch* scratch, Journal* journal, bool* too_large) {
  {
    BatchHolds holds(&context_, &groups_, &scratch->plan);
    ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(too_large));
    if (*too_large) return Status::Ok();
    // Memory and space are taken first: a refusal here refuses only this batch.
    if (scratch->plan.parts().size() > 1) scratch->plan.FillCounts(&scratch->entries);
    Status staged = StageAll(scratch->plan);
    if (!staged.ok()) context_.latch.LatchIfLasting(staged);
    ENGINE_RACE_RETURN_IF_ERROR(staged);
    uint32_t half = 0;
    if (journal != nullptr) ENGINE_RACE_RETURN_IF_ERROR(WriteChain(scratch, journal, &half));
    Status published = Publish(scratch, /*committed=*/journal != nullptr);
    if (journal != nullptr) journal->SettleChain(half);
    ENGINE_RACE_RETURN_IF_ERROR(published);
  }
  WriteFullGroups(scratch->plan.parts());
  return Status::Ok();
}

Status BatchWriter::WriteChain(BatchScratch* scratch, Journal* journal, uint32_t* half) {
  const BatchPlan& plan = scratch->plan;
  scratch->chain.clear();
  scratch->chain.reserve(plan.size());
  for (const BatchPart& part : plan.parts()) {
    const EntryCodec codec = context_.codec(part.bucket);
    for (uint32_t item = part.begin; item < part.end; ++item) {
      const format::KeyEntry entry =
          SlotTable::EncodeAppended(codec, plan.RecordOf(part, item), part.SequenceOf(item));
      scratch->chain.push_back({{entry, part.bucket, 0}, plan.record(item).value});
    }
  }
  return journal->WriteChain(scratch->chain, half);
}

Status BatchWriter::StageAll(const BatchPlan& plan) {
  return Guarded([&] {
    const std::span<const BatchPart> parts = plan.parts();
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i + kPartsAhead < parts.size()) PrefetchPart(parts[i + kPartsAhead]);
      ENGINE_RACE_RETURN_IF_ERROR(Stage(plan, parts[i]));
    }
    return Status::Ok();
  });
}

void BatchWriter::PrefetchPart(const BatchPart& part) const {
  const uint64_t slot = part.first_sequence;
  context_.staging.Prefetch(part.bucket, PlaceInWord(part.value_places, values_.GroupOf(slot)),
                            values_.IndexOf(slot),
                            PlaceInWord(part.key_places, keys_.GroupOf(slot)), keys_.IndexOf(slot));
}

// Stages the records of a part that has its places, past the bucket's count.
Status BatchWriter::Stage(const BatchPlan& plan, const BatchPart& part) {
  ENGINE_RACE_ASSERT(part.held && part.placed);
  const EntryCodec codec = context_.codec(part.bucket);
  Staging& staging = context_.staging;
  // The count as it is: a full disk refuses the word now, and not once the batch is committed.
  ENGINE_RACE_RETURN_IF_ERROR(staging.SecureCount(part.bucket, part.first_sequence));
  bool begins_values = false;
  bool begins_keys = false;
  for (uint32_t item = part.begin; item < part.end; ++item) {
    const KeyRecord record = plan.RecordOf(part, item);
    const uint64_t sequence = part.SequenceOf(item);
    const uint64_t value_index = values_.IndexOf(sequence);
    const uint64_t key_index = keys_.IndexOf(sequence);
    begins_values = begins_values || value_index == 0;
    begins_keys = begins_keys || key_index == 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        staging.StageValue(part.bucket, PlaceInWord(part.value_places, values_.GroupOf(sequence)),
                           value_index, plan.record(item).value));
    ENGINE_RACE_RETURN_IF_ERROR(
        staging.StageKey(part.bucket, PlaceInWord(part.key_places, keys_.GroupOf(sequence)),
                         key_index, SlotTable::EncodeAppended(codec, record, sequence)));
  }
  Staging::Fence();
  if (begins_values) {
    ENGINE_RACE_RETURN_IF_ERROR(
        staging.PublishStaged(part.bucket, format::WordKind::kValuePlaces, part.value_places));
  }
  if (begins_keys) {
    ENGINE_RACE_RETURN_IF_ERROR(
        staging.PublishStaged(part.bucket, format::WordKind::kKeyPlaces, part.key_places));
  }
  return Status::Ok();
}

BatchWriter::BatchWriter(LogContext* context, GroupWriter* groups)
    : context_(*context),
      groups_(*groups),
      values_(context->geometry().values_per_group()),
      keys_(context->geometry().keys_per_group()) {}

// With all records staged. `committed`: the journal has them, so the next opening finds them in any
// case. Else the intent commits them, or the count of a single bucket, which moves by itself. Ok
// once they are committed. After a failure nothing is counted.
Status BatchWriter::Publish(BatchScratch* scratch, bool committed) {
  const std::span<BatchPart> parts = scratch->plan.parts();
  const bool needs_intent = parts.size() > 1;
  uint32_t intent = 0;
  context_.batches.Enter();
  const bool has_intent = needs_intent && intents_.Claim(&intent);
  if (needs_intent && !has_intent && !committed) {
    context_.batches.Leave();
    return Guarded([this] { return context_.latch.status(); });
  }
  // Where memory for a failure's message is refused, it may be committed.
  Status status = GuardedAs(Code::kIOError, [&] {
    return has_intent ? intents_.Commit(intent, scratch->entries) : Status::Ok();
  });
  committed = committed || (has_intent && status.ok());
  if (status.ok() || committed) {
    const TellingOfBatch telling(parts);
    for (BatchPart& part : parts) {
      Bucket& bucket = context_.buckets[part.bucket];
      const std::lock_guard<std::mutex> lock(bucket.mutex);
      Status counted = Count(scratch->plan, &part, committed);
      if (status.ok()) status = std::move(counted);
      if (part.placed) continue;
      part.held = false;
      bucket.Release();
    }
  }
  if (!status.ok()) context_.latch.LatchIfLasting(status);
  // An intent that stays where it cannot be cleared moves no count any more.
  if (has_intent && status.ok()) {
    static_cast<void>(Guarded([&] { return intents_.Clear(intent); }));
  }
  // One that may be committed is kept for the next opening.
  if (has_intent && context_.latch.latched()) {
    intents_.EndClaims();
  } else if (has_intent) {
    intents_.GiveBack(intent);
  }
  context_.batches.Leave();
  return committed ? Status::Ok() : std::move(status);
}

// Under the bucket's lock, when the part is staged: counts its records and tells the listener.
// After a failure nothing is counted. `must_count`: the records are committed, so they are counted,
// whatever becomes of the word. The failure then latches, and the next opening moves the word.
Status BatchWriter::Count(const BatchPlan& plan, BatchPart* part, bool must_count) noexcept {
  Bucket& bucket = context_.buckets[part->bucket];
  ENGINE_RACE_ASSERT(bucket.held && part->placed && bucket.record_count == part->first_sequence);
  const uint64_t count = part->end_sequence();
  bucket.at_cut.See(context_.cuts.number(), bucket.record_count);
  // Where memory for a failure's message is refused, the records may be counted.
  Status published = GuardedAs(Code::kIOError, [&] {
    return context_.staging.PublishStaged(part->bucket, format::WordKind::kRecords, count);
  });
  if (!published.ok()) [[unlikely]] {
    if (!must_count) return published;
    context_.latch.Latch(published);
  }
  // From here on the records outlive the process.
  bucket.record_count = count;
  part->placed = false;
  TellOfRecords(plan, *part, bucket.table);
  // Release pairs with the acquire in Bucket::RecordCount.
  bucket.published_count.store(count, std::memory_order_release);
  FullGroup full;
  part->has_full_group = bucket.FindIdleGroup(&full);
  return published;
}

// Writes the groups that the batch has filled. One that fails stays staged, and the next append of
// its bucket meets the failure.
void BatchWriter::WriteFullGroups(std::span<BatchPart> parts) {
  for (BatchPart& part : parts) {
    if (!part.has_full_group) continue;
    std::unique_lock<std::mutex> lock(context_.buckets[part.bucket].mutex);
    const Status written = groups_.WriteIdleGroups(part.bucket, &lock);
    static_cast<void>(written);
  }
}

std::unique_ptr<BatchScratch> BatchWriter::TakeScratch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!kept_.empty()) {
      std::unique_ptr<BatchScratch> scratch = std::move(kept_.back());
      kept_.pop_back();
      return scratch;
    }
    kept_.reserve(kKeptScratch);
  }
  return std::make_unique<BatchScratch>();
}

void BatchWriter::KeepScratch(std::unique_ptr<BatchScratch> scratch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (kept_.size() < kKeptScratch) kept_.push_back(std::move(scratch));
}

}  // namespace engine_race
