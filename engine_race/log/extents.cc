#include "engine_race/log/extents.h"

#include <algorithm>
#include <bit>
#include <new>

#include "engine_race/base/checksum.h"
#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

using format::ExtentEntry;
using format::SyncedMark;

constexpr uint32_t kKeyShift = format::kPhysicalExtentBits;
constexpr uint64_t kPhysicalMask = (uint64_t{1} << format::kPhysicalExtentBits) - 1;
constexpr uint64_t kMarkSeed = 0x9fb21c651e98df25;

uint64_t KeyOf(uint32_t bucket, uint32_t logical_extent) {
  return (uint64_t{bucket} << format::kLogicalExtentBits) | logical_extent;
}

bool IsZero(const ExtentEntry& entry) {
  return entry.bucket == 0 && entry.logical_extent == 0 && entry.check == 0;
}

uint64_t TableBytes(const DeviceIdentity& identity) {
  return format::kExtentEntriesOffset + uint64_t{identity.extent_count} * sizeof(ExtentEntry);
}

uint64_t EntryOffset(uint64_t physical_extent) {
  return format::kExtentEntriesOffset + physical_extent * sizeof(ExtentEntry);
}

}  // namespace

std::string ExtentTableName(uint32_t path_index) {
  const std::string digits = std::to_string(path_index);
  return format::kExtentTablePrefix + std::string(digits.size() < 2 ? 1 : 0, '0') + digits;
}

uint64_t ExtentTable::CheckOf(uint32_t bucket, uint32_t logical_extent,
                              uint64_t physical_extent) const {
  const uint64_t words[] = {KeyOf(bucket, logical_extent), physical_extent, identity_.path_index};
  return Hash64(words, sizeof(words), identity_.store_id);
}

uint64_t ExtentTable::CheckOfMark(uint64_t count) const {
  const uint64_t words[] = {count, identity_.path_index};
  return Hash64(words, sizeof(words), identity_.store_id ^ kMarkSeed);
}

Status ExtentTable::AllocateWords() {
  const uint64_t count = std::bit_ceil(uint64_t{identity_.extent_count} * 2);
  words_.reset(new (std::nothrow) std::atomic<uint64_t>[count]());
  if (words_ == nullptr) return Status::OutOfMemory("table of extents");
  word_count_ = count;
  try {
    given_.assign(identity_.extent_count, false);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("table of extents");
  }
  return Status::Ok();
}

uint64_t ExtentTable::FirstWordOf(uint64_t key) const {
  return MixWords(key + 0xa0761d6478bd642f, 0xe7037ed1a0b428db) & (word_count_ - 1);
}

bool ExtentTable::FindWord(uint64_t key, uint64_t* physical_extent) const {
  for (uint64_t at = FirstWordOf(key);; at = (at + 1) & (word_count_ - 1)) {
    // Acquire, of Insert's release: a thread that finds an extent sees its entry as written.
    const uint64_t word = words_[at].load(std::memory_order_acquire);
    if (word == 0) return false;
    if (word >> kKeyShift != key) continue;
    *physical_extent = (word & kPhysicalMask) - 1;
    return true;
  }
}

void ExtentTable::Insert(uint64_t key, uint64_t physical_extent) {
  uint64_t at = FirstWordOf(key);
  // Relaxed: only holders of mutex_ insert.
  while (words_[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & (word_count_ - 1);
  // Release, for FindWord's acquire.
  words_[at].store(key << kKeyShift | (physical_extent + 1), std::memory_order_release);
  given_[physical_extent] = true;
  // Relaxed: a statistic.
  given_count_.fetch_add(1, std::memory_order_relaxed);
  while (next_ < given_.size() && given_[next_]) ++next_;
}

Status ExtentTable::Create(int dir_fd, const DeviceIdentity& identity, mode_t file_mode) {
  identity_ = identity;
  ENGINE_RACE_RETURN_IF_ERROR(AllocateWords());
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, ExtentTableName(identity.path_index),
                                             io::Access::kReplace, io::Caching::kBuffered, &file_,
                                             file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(file_.Truncate(TableBytes(identity)));
  // Meets a full file system here. Where it cannot, the write of an entry meets it.
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(
      file_.Reserve(/*keep_size=*/true, 0, TableBytes(identity), &supported));
  ENGINE_RACE_RETURN_IF_ERROR(WriteHeaderBlock(file_, identity));
  const SyncedMark mark = {0, CheckOfMark(0)};
  ENGINE_RACE_RETURN_IF_ERROR(file_.Write(&mark, sizeof(mark), format::kSyncedMarkOffset));
  return file_.Sync();
}

Status ExtentTable::Open(int dir_fd, uint32_t path_index, uint64_t store_id, bool read_only) {
  const std::string name = ExtentTableName(path_index);
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, name, &exists));
  if (!exists) return Status::Corruption(name + " is missing");
  ENGINE_RACE_RETURN_IF_ERROR(io::File::Open(dir_fd, name,
                                             read_only ? io::Access::kRead : io::Access::kReadWrite,
                                             io::Caching::kBuffered, &file_));
  read_only_ = read_only;
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Size(&size_bytes));
  if (size_bytes < format::kExtentEntriesOffset) {
    return Status::Corruption(name + ": the table is truncated");
  }
  const Status found = ReadDeviceHeader(file_, &identity_);
  if (found.code() == Code::kNotFound) return Status::Corruption(name + ": not an extent table");
  ENGINE_RACE_RETURN_IF_ERROR(found);
  if (identity_.store_id != store_id || identity_.path_index != path_index) {
    return Status::Corruption(name + ": the table of another store or path");
  }
  if (size_bytes >= TableBytes(identity_)) return Status::Ok();
  return Status::Corruption(name + ": the table is truncated");
}

Status ExtentTable::Load() {
  ENGINE_RACE_RETURN_IF_ERROR(AllocateWords());
  uint64_t synced_watermark = 0;
  ENGINE_RACE_RETURN_IF_ERROR(ReadMark(&synced_watermark));
  std::vector<ExtentEntry> entries;
  ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(&entries));
  ENGINE_RACE_RETURN_IF_ERROR(TakeEntries(entries, synced_watermark));
  if (read_only_ || given_count() <= synced_watermark) return Status::Ok();
  // After a flush that failed the kernel may hold these entries for clean though no disk has them.
  // They are written anew, so that the next flush takes them.
  for (uint64_t i = synced_watermark; i < entries.size(); ++i) {
    if (!given_[i]) continue;
    ENGINE_RACE_RETURN_IF_ERROR(file_.Write(&entries[i], sizeof(entries[i]), EntryOffset(i)));
  }
  unsynced_ = true;
  return Status::Ok();
}

Status ExtentTable::ReadMark(uint64_t* synced_watermark) const {
  SyncedMark mark;
  ENGINE_RACE_RETURN_IF_ERROR(file_.Read(&mark, sizeof(mark), format::kSyncedMarkOffset));
  if (mark.check != CheckOfMark(mark.count) || mark.count > identity_.extent_count) {
    return Status::Corruption(file_.name() + ": the mark of what is synced does not match");
  }
  *synced_watermark = mark.count;
  return Status::Ok();
}

Status ExtentTable::ReadEntries(std::vector<ExtentEntry>* entries) const {
  try {
    entries->resize(identity_.extent_count);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("table of extents");
  }
  size_t read_bytes = 0;
  const size_t size_bytes = entries->size() * sizeof(ExtentEntry);
  ENGINE_RACE_RETURN_IF_ERROR(
      file_.ReadSome(entries->data(), size_bytes, format::kExtentEntriesOffset, &read_bytes));
  if (read_bytes == size_bytes) return Status::Ok();
  return Status::Corruption(file_.name() + ": the table is truncated");
}

Status ExtentTable::TakeEntries(const std::vector<ExtentEntry>& entries,
                                uint64_t synced_watermark) {
  for (uint64_t i = 0; i < entries.size(); ++i) {
    const ExtentEntry& entry = entries[i];
    const bool valid = entry.bucket < kMaxBucketCount &&
                       entry.logical_extent < 1u << format::kLogicalExtentBits && !IsZero(entry) &&
                       entry.check == CheckOf(entry.bucket, entry.logical_extent, i);
    if (!valid) {
      if (i >= synced_watermark) continue;
      return Status::Corruption(file_.name() + ": entry " + std::to_string(i) + " is damaged");
    }
    const uint64_t key = KeyOf(entry.bucket, entry.logical_extent);
    uint64_t other = 0;
    if (FindWord(key, &other)) {
      return Status::Corruption(file_.name() + ": entries " + std::to_string(other) + " and " +
                                std::to_string(i) + " are of one extent");
    }
    Insert(key, i);
  }
  return Status::Ok();
}

bool ExtentTable::Find(uint32_t bucket, uint32_t logical_extent, uint64_t* device_offset) const {
  uint64_t physical_extent = 0;
  if (!FindWord(KeyOf(bucket, logical_extent), &physical_extent)) return false;
  *device_offset = identity_.OffsetOf(physical_extent);
  return true;
}

Status ExtentTable::WriteEntry(uint32_t bucket, uint32_t logical_extent, uint64_t physical_extent) {
  const ExtentEntry entry = {bucket, logical_extent,
                             CheckOf(bucket, logical_extent, physical_extent)};
  return file_.Write(&entry, sizeof(entry), EntryOffset(physical_extent));
}

Status ExtentTable::FindOrAllocate(uint32_t bucket, uint32_t logical_extent,
                                   uint64_t* device_offset) {
  if (Find(bucket, logical_extent, device_offset)) return Status::Ok();
  std::lock_guard lock(mutex_);
  if (Find(bucket, logical_extent, device_offset)) return Status::Ok();
  if (next_ == given_.size()) {
    return Status::Full("the device has no extent left: all " + std::to_string(given_.size()) +
                        " are given out");
  }
  const uint64_t physical_extent = next_;
  ENGINE_RACE_RETURN_IF_ERROR(WriteEntry(bucket, logical_extent, physical_extent));
  unsynced_ = true;
  Insert(KeyOf(bucket, logical_extent), physical_extent);
  *device_offset = identity_.OffsetOf(physical_extent);
  return Status::Ok();
}

Status ExtentTable::Flush() {
  std::lock_guard flushing(flush_mutex_);
  ENGINE_RACE_RETURN_IF_ERROR(flush_failure_);
  uint64_t covered_count = 0;
  {
    std::lock_guard lock(mutex_);
    if (!unsynced_) return Status::Ok();
    // Extents given out from here on belong to the next flush.
    unsynced_ = false;
    covered_count = next_;
  }
  Status status = file_.DataSync();
  if (status.ok()) {
    // The mark is flushed some time later. Until then the older mark is there: it counts fewer
    // extents, and is true.
    const SyncedMark mark = {covered_count, CheckOfMark(covered_count)};
    status = file_.Write(&mark, sizeof(mark), format::kSyncedMarkOffset);
  }
  flush_failure_ = status;
  return status;
}

}  // namespace engine_race
