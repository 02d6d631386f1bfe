#include "engine_race/log/large_batches.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/large_batch_file.h"

namespace engine_race {
namespace {

// The counts that the buckets of a plan, which holds them, are to have.
std::vector<format::BatchIntentEntry> CountsAfter(const BatchPlan& plan) {
  std::vector<format::BatchIntentEntry> counts;
  counts.reserve(plan.parts().size());
  for (const BatchPart& part : plan.parts()) {
    counts.push_back({part.first_sequence + part.size(), part.bucket, 0});
  }
  return counts;
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

}  // namespace

Status LargeBatches::Write(std::span<const WriteBatch::Record> records) {
  const CountedIn under_way(&under_way_count_);
  const std::lock_guard<std::mutex> one_at_a_time(context_.large_batch_mutex);
  BatchPlan plan;
  ENGINE_RACE_RETURN_IF_ERROR(batches_.Prepare(records, &plan));
  if (context_.latch.latched()) return context_.latch.status();
  LargeBatchFile file(context_.files);
  BatchHolds holds(&context_, &groups_, &plan);
  std::vector<uint64_t> secured;
  bool may_be_committed = false;
  Status written = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(Prepare(records, plan, &file));
    bool too_large = false;
    ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(/*places=*/false, &too_large));
    ENGINE_RACE_RETURN_IF_ERROR(SecureLogs(plan, &file, &secured));
    return Write(&file, &holds, &plan, &may_be_committed);
  });
  if (written.ok()) return written;
  // Before the holds end: no record may come before what is left of the batch.
  if (may_be_committed) {
    context_.latch.Latch(written);
    // The next opening may find the batch. A full disk or refused memory would say that it is not
    // there.
    if (CanBeTriedAgain(written)) written = CopyAs(Code::kIOError, written);
  } else {
    file.Discard();
    for (size_t i = 0; i < secured.size(); ++i) {
      const BatchPart& part = plan.parts()[i];
      writer_.GiveBackNext(part.bucket, part.size(), secured[i]);
    }
  }
  return written;
}

// What may be refused is asked for before anything is written, and before other writers wait. The
// file first takes the space of the logs as well, because slots are known only under the holds.
Status LargeBatches::Prepare(std::span<const WriteBatch::Record> records, const BatchPlan& plan,
                             LargeBatchFile* file) {
  const Geometry& geometry = context_.geometry();
  uint64_t log_bytes = 0;
  for (const BatchPart& part : plan.parts()) {
    Bucket& bucket = context_.buckets[part.bucket];
    if (bucket.damaged) return context_.DamagedCounts(part.bucket);
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    ENGINE_RACE_RETURN_IF_ERROR(groups_.CheckSlots(part.bucket, part.size()));
    const uint64_t end_bytes = (bucket.record_count + part.size()) * kValueBytes;
    const uint64_t begin_bytes =
        std::max(bucket.record_count / geometry.values_per_group() * geometry.value_group_bytes,
                 bucket.table.has_rows() ? 0 : bucket.reserved_value_bytes);
    log_bytes += end_bytes - std::min(begin_bytes, end_bytes) +
                 RoundUp(part.size() * sizeof(format::KeyEntry), kIoAlignment) + kIoAlignment;
  }
  return file->Save(records, plan.parts().size(), log_bytes, context_.options.file_mode);
}

// (*secured)[i]: what LogWriter::SecureNext says of part i.
Status LargeBatches::SecureLogs(const BatchPlan& plan, LargeBatchFile* file,
                                std::vector<uint64_t>* secured) {
  secured->reserve(plan.parts().size());
  ENGINE_RACE_RETURN_IF_ERROR(file->GiveBackSpare());
  for (const BatchPart& part : plan.parts()) {
    secured->push_back(~uint64_t{0});
    ENGINE_RACE_RETURN_IF_ERROR(writer_.SecureNext(part.bucket, part.size(), &secured->back()));
  }
  return Status::Ok();
}

// *may_be_committed: after a failure the next opening may finish the batch.
Status LargeBatches::Write(LargeBatchFile* file, BatchHolds* holds, BatchPlan* plan,
                           bool* may_be_committed) {
  // A committed batch outlives a power loss. So must all that its buckets had before: the counts
  // that commit it then tell which of its records a bucket has.
  ENGINE_RACE_RETURN_IF_ERROR(SyncHeld());
  ENGINE_RACE_RETURN_IF_ERROR(file->Commit(CountsAfter(*plan), may_be_committed));
  const uint64_t cut_number = context_.batches.CutNumber();
  ENGINE_RACE_RETURN_IF_ERROR(AppendAll(holds, plan));
  // A Sync that took its counts meanwhile has made a part durable: the rest must be so before the
  // file goes.
  if (context_.options.sync_mode != SyncMode::kNone || context_.batches.CutNumber() != cut_number) {
    ENGINE_RACE_RETURN_IF_ERROR(SyncHeld());
  }
  return file->Remove();
}

// Sync while the batch holds its buckets, whose staging is verified. Another bucket that has lost
// its staging does not concern the batch.
Status LargeBatches::SyncHeld() {
  Status synced = syncer_.Sync();
  return synced.code() == Code::kCorruption ? Status::Ok() : std::move(synced);
}

Status LargeBatches::AppendAll(BatchHolds* holds, BatchPlan* plan) {
  const TellingOfBatch telling(plan->parts());
  for (BatchPart& part : plan->parts()) {
    ENGINE_RACE_RETURN_IF_ERROR(AppendPart(holds, *plan, &part));
  }
  return Status::Ok();
}

// Appends the records of one bucket, at most a group of them at once.
Status LargeBatches::AppendPart(BatchHolds* holds, const BatchPlan& plan, BatchPart* part) {
  Bucket& bucket = context_.buckets[part->bucket];
  const uint32_t end = part->end;
  while (part->begin < end) {
    // Only this thread moves the count while the batch holds the bucket.
    const uint64_t slot = bucket.RecordCount();
    const uint64_t values = context_.geometry().values_per_group();
    const uint64_t keys = context_.geometry().keys_per_group();
    const uint64_t room = std::min(values - slot % values, keys - slot % keys);
    part->end = static_cast<uint32_t>(std::min<uint64_t>(end, part->begin + room));
    ENGINE_RACE_RETURN_IF_ERROR(holds->TakePlaces(part));
    ENGINE_RACE_RETURN_IF_ERROR(batches_.Stage(plan, *part));
    {
      const std::lock_guard<std::mutex> lock(bucket.mutex);
      ENGINE_RACE_RETURN_IF_ERROR(batches_.Count(plan, part, /*must_count=*/false));
    }
    batches_.WriteFullGroups({part, 1});
    part->begin = part->end;
  }
  return Status::Ok();
}

Status LargeBatches::Finish() {
  LargeBatchFile file(context_.files);
  bool committed = false;
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(io::Access::kReadWrite, &committed));
  if (!file.exists()) return Status::Ok();
  if (committed) {
    if (context_.latch.latched()) return context_.latch.status();
    ENGINE_RACE_RETURN_IF_ERROR(FinishBatch(file));
  }
  if (context_.latch.latched()) return Status::Ok();
  // Also of a file that is empty: its page cache may say so, and the device may not.
  Status removed = file.Remove();
  if (!removed.ok()) context_.latch.Latch(removed);
  return committed ? std::move(removed) : Status::Ok();
}

Status LargeBatches::FinishBatch(const LargeBatchFile& file) {
  WriteBatch batch;
  ENGINE_RACE_RETURN_IF_ERROR(file.ReadRecords(&batch));
  BatchPlan plan;
  ENGINE_RACE_RETURN_IF_ERROR(batches_.Prepare(batch.records(), &plan));
  ENGINE_RACE_RETURN_IF_ERROR(LeaveOutAppended(file, &plan));
  BatchHolds holds(&context_, &groups_, &plan);
  bool too_large = false;
  ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(/*places=*/false, &too_large));
  ENGINE_RACE_RETURN_IF_ERROR(AppendAll(&holds, &plan));
  // Its records are durable before the file goes: a Sync may have met the batch.
  return SyncHeld();
}

// Takes out of each part the records that the bucket has. A bucket with damaged counts gets none:
// nothing of it is read any more, so nobody sees a part of the batch.
Status LargeBatches::LeaveOutAppended(const LargeBatchFile& file, BatchPlan* plan) const {
  uint64_t left_count = 0;
  for (BatchPart& part : plan->parts()) {
    const Bucket& bucket = context_.buckets[part.bucket];
    if (bucket.damaged) {
      Log(context_.options.log, LogLevel::kError,
          "bucket " + std::to_string(part.bucket) + " has damaged counts and gets none of the " +
              std::to_string(part.size()) + " records of an interrupted batch");
      part.begin = part.end;
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(file.LeaveOutAppended(bucket.RecordCount(), &part));
    left_count += part.size();
  }
  Log(context_.options.log, LogLevel::kInfo,
      "a batch of " + std::to_string(plan->size()) + " records was interrupted: the last " +
          std::to_string(left_count) + " are appended");
  return Status::Ok();
}

}  // namespace engine_race
