#include "engine_race/log/large_batches.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/append_listener.h"
#include "engine_race/log/batch_remains.h"
#include "engine_race/log/failure.h"

namespace engine_race {
namespace {

constexpr uint64_t kEntriesOffset = kIoAlignment;

uint64_t ValuesOffset(uint64_t entry_count) {
  return kEntriesOffset + RoundUp(entry_count * sizeof(format::LargeBatchEntry), kIoAlignment);
}

uint64_t ChecksumOf(const format::LargeBatchHeader& header,
                    const std::vector<format::LargeBatchEntry>& entries) {
  const uint64_t seed =
      Hash64(&header, offsetof(format::LargeBatchHeader, checksum), format::kLargeBatchMagic);
  return Hash64(entries.data(), entries.size() * sizeof(entries.front()), seed);
}

std::vector<format::LargeBatchEntry> EntriesOf(std::span<const WriteBatch::Record> records) {
  std::vector<format::LargeBatchEntry> entries;
  entries.reserve(records.size());
  for (const WriteBatch::Record& record : records) {
    entries.push_back({record.key, record.value_hash, record.value == nullptr ? 1U : 0U});
  }
  return entries;
}

// Reads the header and the entries. *committed is false when there is no whole batch.
Status ReadEntries(const StoreFiles& files, io::Access access, io::File* file,
                   std::vector<format::LargeBatchEntry>* entries, bool* committed) {
  *committed = false;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(files.directory.get(), format::kLargeBatchName, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files.directory.get(), format::kLargeBatchName, access,
                                             io::Caching::kBuffered, file));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file->Size(&size_bytes));
  if (size_bytes < kEntriesOffset) return Status::Ok();
  format::LargeBatchHeader header;
  ENGINE_RACE_RETURN_IF_ERROR(file->Read(&header, sizeof(header), 0));
  if (header.magic != format::kLargeBatchMagic || header.store_id != files.identity.store_id ||
      header.entry_count > size_bytes / sizeof(format::LargeBatchEntry) ||
      ValuesOffset(header.entry_count) > size_bytes) {
    return Status::Ok();
  }
  entries->resize(header.entry_count);
  ENGINE_RACE_RETURN_IF_ERROR(
      file->Read(entries->data(), entries->size() * sizeof(entries->front()), kEntriesOffset));
  *committed = header.checksum == ChecksumOf(header, *entries);
  return Status::Ok();
}

// The batch as it was. Its values were durable before its header: one that fails is damage.
Status ReadBatch(const io::File& file, const std::vector<format::LargeBatchEntry>& entries,
                 WriteBatch* batch) {
  std::string value(kValueBytes, '\0');
  uint64_t offset = ValuesOffset(entries.size());
  for (const format::LargeBatchEntry& entry : entries) {
    if (entry.deletion != 0) {
      ENGINE_RACE_RETURN_IF_ERROR(batch->Delete(KeyBytes(entry.key).view()));
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(value.data(), value.size(), offset));
    offset += kValueBytes;
    ENGINE_RACE_RETURN_IF_ERROR(batch->Put(KeyBytes(entry.key).view(), value));
    if (batch->records().back().value_hash != entry.value_hash) {
      return Status::Corruption(file.name() + ": a value does not match its checksum");
    }
  }
  return Status::Ok();
}

// Empties the file, durably.
Status Empty(const io::File& file) {
  ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(0));
  return file.Sync();
}

}  // namespace

Status HasLargeBatch(const StoreFiles& files, bool* has) {
  io::File file;
  std::vector<format::LargeBatchEntry> entries;
  return ReadEntries(files, io::Access::kRead, &file, &entries, has);
}

Status LargeBatches::Write(std::span<const WriteBatch::Record> records) {
  const std::lock_guard<std::mutex> one_at_a_time(context_.large_batch_mutex);
  BatchPlan plan;
  bool too_large = false;
  ENGINE_RACE_RETURN_IF_ERROR(batches_.Prepare(records, &plan));
  BatchHolds holds(&context_, &groups_, &plan);
  ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(/*places=*/false, &too_large));
  io::File file;
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(context_.files.directory.get(), format::kLargeBatchName, io::Access::kCreate,
                     io::Caching::kBuffered, &file, context_.options.file_mode));
  const std::vector<format::LargeBatchEntry> entries = EntriesOf(records);
  Status saved = Save(records, entries, file);
  // A committed batch outlives a power loss. So must all that was written to its buckets before.
  if (saved.ok() && context_.options.sync_mode == SyncMode::kNone) saved = syncer_.Sync();
  bool may_be_committed = false;
  if (saved.ok()) {
    saved =
        Guarded([&] { return CommitAndAppend(entries, file, &holds, &plan, &may_be_committed); });
  }
  if (saved.ok()) return saved;
  if (may_be_committed) {
    context_.latch.Latch(saved);
  } else {
    // Without a header the file is nothing. Whether its space is given back changes nothing.
    static_cast<void>(file.Truncate(0).ok());
  }
  return saved;
}

// Makes everything but the header durable.
Status LargeBatches::Save(std::span<const WriteBatch::Record> records,
                          const std::vector<format::LargeBatchEntry>& entries,
                          const io::File& file) {
  ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(0));
  ENGINE_RACE_RETURN_IF_ERROR(
      file.Write(entries.data(), entries.size() * sizeof(entries.front()), kEntriesOffset));
  uint64_t offset = ValuesOffset(records.size());
  for (const WriteBatch::Record& record : records) {
    if (record.value == nullptr) continue;
    ENGINE_RACE_RETURN_IF_ERROR(file.Write(record.value, kValueBytes, offset));
    offset += kValueBytes;
  }
  // Deletions alone end within a page: the file reaches to where values would begin.
  ENGINE_RACE_RETURN_IF_ERROR(file.Truncate(offset));
  ENGINE_RACE_RETURN_IF_ERROR(file.Sync());
  return sys::Fsync(context_.files.directory.get());
}

Status LargeBatches::CommitAndAppend(const std::vector<format::LargeBatchEntry>& entries,
                                     const io::File& file, BatchHolds* holds, BatchPlan* plan,
                                     bool* may_be_committed) {
  *may_be_committed = true;
  const Status committed = Commit(entries, file);
  // A full disk has taken no header.
  *may_be_committed = committed.code() != Code::kFull;
  ENGINE_RACE_RETURN_IF_ERROR(committed);
  ENGINE_RACE_RETURN_IF_ERROR(AppendAll(holds, plan));
  return Settle(file);
}

// After kFull the batch is not committed. After another failure nobody knows.
Status LargeBatches::Commit(const std::vector<format::LargeBatchEntry>& entries,
                            const io::File& file) {
  format::LargeBatchHeader header{};
  header.magic = format::kLargeBatchMagic;
  header.store_id = context_.files.identity.store_id;
  header.entry_count = entries.size();
  header.checksum = ChecksumOf(header, entries);
  ENGINE_RACE_RETURN_IF_ERROR(file.Write(&header, sizeof(header), 0));
  Status flushed = file.DataSync();
  return flushed.ok() ? std::move(flushed) : CopyAs(Code::kIOError, flushed);
}

Status LargeBatches::AppendAll(BatchHolds* holds, BatchPlan* plan) {
  const TellingOfBatch telling(plan->parts());
  for (BatchPart& part : plan->parts()) {
    ENGINE_RACE_RETURN_IF_ERROR(AppendPart(holds, *plan, &part));
  }
  return Status::Ok();
}

// Appends the records of one bucket, so many at once that they fill one group at most.
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

// The records are appended: the batch need not be found again.
Status LargeBatches::Settle(const io::File& file) {
  if (context_.options.sync_mode != SyncMode::kNone) ENGINE_RACE_RETURN_IF_ERROR(syncer_.Sync());
  return Empty(file);
}

Status LargeBatches::Finish() {
  io::File file;
  std::vector<format::LargeBatchEntry> entries;
  bool committed = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      ReadEntries(context_.files, io::Access::kReadWrite, &file, &entries, &committed));
  if (!committed) return Status::Ok();
  if (context_.latch.latched()) return context_.latch.status();
  Log(context_.options.log, LogLevel::kInfo,
      "a batch of " + std::to_string(entries.size()) + " records was interrupted: it is finished");
  WriteBatch batch;
  ENGINE_RACE_RETURN_IF_ERROR(ReadBatch(file, entries, &batch));
  BatchPlan plan;
  bool too_large = false;
  ENGINE_RACE_RETURN_IF_ERROR(batches_.Prepare(batch.records(), &plan));
  ENGINE_RACE_RETURN_IF_ERROR(LeaveOutAppended(&context_, &plan));
  BatchHolds holds(&context_, &groups_, &plan);
  ENGINE_RACE_RETURN_IF_ERROR(holds.HoldAll(/*places=*/false, &too_large));
  ENGINE_RACE_RETURN_IF_ERROR(AppendAll(&holds, &plan));
  // An interrupted batch may have been met by a Sync: its records are durable before the file goes.
  ENGINE_RACE_RETURN_IF_ERROR(syncer_.Sync());
  return Empty(file);
}

}  // namespace engine_race
