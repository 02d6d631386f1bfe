#include "engine_race/log/large_batch_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/failure.h"
#include "engine_race/log/format.h"

namespace engine_race {
namespace {

using format::BatchIntentEntry;
using format::LargeBatchEntry;
using format::LargeBatchHeader;

template <typename T>
uint64_t BytesOf(const std::vector<T>& items) {
  return items.size() * sizeof(T);
}

}  // namespace

uint64_t LargeBatchFile::EntriesOffset() const {
  return RoundUp(sizeof(LargeBatchHeader) + BytesOf(counts_), kIoAlignment);
}

uint64_t LargeBatchFile::ValuesOffset() const {
  return EntriesOffset() + RoundUp(BytesOf(entries_), kIoAlignment);
}

uint64_t LargeBatchFile::ChecksumOf(const LargeBatchHeader& header) const {
  const uint64_t of_header =
      Hash64(&header, offsetof(LargeBatchHeader, checksum), format::kLargeBatchMagic);
  const uint64_t of_entries = Hash64(entries_.data(), BytesOf(entries_), of_header);
  return Hash64(counts_.data(), BytesOf(counts_), of_entries);
}

Status LargeBatchFile::Save(std::span<const WriteBatch::Record> records, uint64_t bucket_count,
                            uint64_t spare_bytes, mode_t file_mode) {
  counts_.resize(bucket_count);
  entries_.clear();
  entries_.reserve(records.size());
  for (const WriteBatch::Record& record : records) {
    entries_.push_back({record.key, record.value_hash, record.value == nullptr ? 1U : 0U});
  }
  const auto value_count = static_cast<uint64_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return entry.deletion == 0; }));
  size_bytes_ = ValuesOffset() + value_count * kValueBytes;
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files_.directory.get(), format::kLargeBatchName,
                                             io::Access::kCreate, io::Caching::kBuffered, &file_,
                                             file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(0));
  // A full disk refuses the batch here, before any of it is written.
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      file_.Reserve(/*keep_size=*/false, 0, size_bytes_ + spare_bytes, &supported));
  if (!supported) ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(size_bytes_));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Write(entries_.data(), BytesOf(entries_), EntriesOffset()));
  uint64_t offset = ValuesOffset();
  for (const WriteBatch::Record& record : records) {
    if (record.value == nullptr) continue;
    ENGINE_RACE_RETURN_IF_ERROR(file_.Write(record.value, kValueBytes, offset));
    offset += kValueBytes;
  }
  ENGINE_RACE_RETURN_IF_ERROR(file_.Sync());
  return sys::Fsync(files_.directory.get());
}

Status LargeBatchFile::Commit(std::span<const BatchIntentEntry> counts, bool* may_be_committed) {
  ENGINE_RACE_ASSERT(counts.size() == counts_.size());
  *may_be_committed = false;
  counts_.assign(counts.begin(), counts.end());
  LargeBatchHeader header{};
  header.magic = format::kLargeBatchMagic;
  header.store_id = files_.identity.store_id;
  header.entry_count = entries_.size();
  header.bucket_count = counts_.size();
  header.checksum = ChecksumOf(header);
  // One write: a header without all of its counts fails its checksum.
  std::vector<char> head(sizeof(header) + BytesOf(counts_));
  std::memcpy(head.data(), &header, sizeof(header));
  std::memcpy(head.data() + sizeof(header), counts_.data(), BytesOf(counts_));
  *may_be_committed = true;
  const Status written = file_.Write(head.data(), head.size(), 0);
  *may_be_committed = written.code() != Code::kFull;
  ENGINE_RACE_RETURN_IF_ERROR(written);
  Status flushed = file_.DataSync();
  return flushed.ok() ? std::move(flushed) : CopyAs(Code::kIOError, flushed);
}

// The name may come back after a loss of power. The file is empty then.
Status LargeBatchFile::Remove() {
  ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(0));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Sync());
  static_cast<void>(sys::Unlink(files_.directory.get(), format::kLargeBatchName).ok());
  return Status::Ok();
}

void LargeBatchFile::Discard() noexcept {
  if (!file_.valid()) return;
  static_cast<void>(Guarded([this] {
    ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(0));
    return sys::Unlink(files_.directory.get(), format::kLargeBatchName);
  }));
}

Status LargeBatchFile::Read(io::Access access, bool* committed) {
  *committed = false;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::Exists(files_.directory.get(), format::kLargeBatchName, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(files_.directory.get(), format::kLargeBatchName,
                                             access, io::Caching::kBuffered, &file_));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Size(&size_bytes));
  if (size_bytes < sizeof(LargeBatchHeader)) return Status::Ok();
  LargeBatchHeader header;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(&header, sizeof(header), 0));
  if (header.magic != format::kLargeBatchMagic || header.store_id != files_.identity.store_id ||
      header.entry_count > size_bytes / sizeof(LargeBatchEntry) ||
      header.bucket_count > size_bytes / sizeof(BatchIntentEntry)) {
    return Status::Ok();
  }
  counts_.resize(header.bucket_count);
  entries_.resize(header.entry_count);
  if (ValuesOffset() > size_bytes) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(counts_.data(), BytesOf(counts_), sizeof(header)));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(entries_.data(), BytesOf(entries_), EntriesOffset()));
  *committed = header.checksum == ChecksumOf(header);
  return Status::Ok();
}

Status LargeBatchFile::ReadRecords(WriteBatch* batch) const {
  std::string value(kValueBytes, '\0');
  uint64_t offset = ValuesOffset();
  for (const LargeBatchEntry& entry : entries_) {
    if (!files_.identity.geometry.keys().Contains(entry.key)) {
      return Status::Corruption(file_.name() + ": a key is none of the store's");
    }
    if (entry.deletion != 0) {
      ENGINE_RACE_RETURN_IF_ERROR(batch->Delete(KeyBytes(entry.key).view()));
      continue;
    }
    ENGINE_RACE_RETURN_IF_ERROR(file_.Read(value.data(), value.size(), offset));
    offset += kValueBytes;
    ENGINE_RACE_RETURN_IF_ERROR(batch->Put(KeyBytes(entry.key).view(), value));
    if (batch->records().back().value_hash != entry.value_hash) {
      return Status::Corruption(file_.name() + ": a value does not match its checksum");
    }
  }
  return Status::Ok();
}

Status LargeBatchFile::LeaveOutAppended(uint64_t record_count, BatchPart* part) const {
  const auto count = std::lower_bound(
      counts_.begin(), counts_.end(), part->bucket,
      [](const BatchIntentEntry& entry, uint32_t bucket) { return entry.bucket < bucket; });
  if (count == counts_.end() || count->bucket != part->bucket) {
    return Status::Corruption(file_.name() + ": the counts are not of the batch's buckets");
  }
  const uint64_t missing_count = count->record_count - std::min(count->record_count, record_count);
  part->begin = part->end - static_cast<uint32_t>(std::min<uint64_t>(part->size(), missing_count));
  return Status::Ok();
}

}  // namespace engine_race
