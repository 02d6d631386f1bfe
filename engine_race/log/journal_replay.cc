#include "engine_race/log/journal_replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"

namespace engine_race {
namespace {

// Of the journal, read at once: several small batches, and not much of a large one.
constexpr uint64_t kWindowBytes = 128 * 1024;
static_assert(kWindowBytes % format::kJournalBlockBytes == 0);

std::pair<uint32_t, uint64_t> PositionOf(const JournalReplay::Record& record) {
  return {record.descriptor.bucket(), record.descriptor.sequence()};
}

// Checks the block at `block`, which it changes, and copies its header.
bool ParseHeader(char* block, uint64_t store_id, format::JournalHeader* header) {
  std::memcpy(header, block, sizeof(*header));
  if (header->magic != format::kJournalMagic || header->store_id != store_id ||
      header->record_count > format::kJournalBatchRecords) {
    return false;
  }
  reinterpret_cast<format::JournalHeader*>(block)->checksum = 0;
  return header->checksum == Hash64(block, format::kJournalBlockBytes, format::kJournalMagic);
}

Status OpenJournal(int dir_fd, io::Access access, io::File* file, uint64_t* half_bytes) {
  *half_bytes = 0;
  bool exists = false;
  ENGINE_RACE_RETURN_IF_ERROR(sys::Exists(dir_fd, format::kJournalName, &exists));
  if (!exists) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(
      io::File::Open(dir_fd, format::kJournalName, access, io::Caching::kDirect, file));
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file->Size(&size_bytes));
  // One that is shorter was never finished and has not been written to.
  if (size_bytes >= kMinJournalBytes) {
    *half_bytes = size_bytes / format::kJournalHalves / kIoAlignment * kIoAlignment;
  }
  return Status::Ok();
}

}  // namespace

Status JournalReplay::Read(int dir_fd, uint64_t store_id) {
  uint64_t half_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenJournal(dir_fd, io::Access::kRead, &file_, &half_bytes));
  if (half_bytes == 0) return Status::Ok();
  Region window;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kWindowBytes, /*huge_pages=*/false, &window));
  for (uint32_t half = 0; half < format::kJournalHalves; ++half) {
    ENGINE_RACE_RETURN_IF_ERROR(
        ReadHalf(store_id, half * half_bytes, (half + 1) * half_bytes, window));
  }
  std::sort(records_.begin(), records_.end(),
            [](const Record& a, const Record& b) { return PositionOf(a) < PositionOf(b); });
  return Status::Ok();
}

// `window` is where the half is read into, some batches at a time.
Status JournalReplay::ReadHalf(uint64_t store_id, uint64_t begin_offset, uint64_t end_offset,
                               const Region& window) {
  uint64_t generation = 0;
  uint64_t offset = begin_offset;
  uint64_t window_end = begin_offset;
  uint64_t window_begin = begin_offset;
  for (uint32_t number = 0; offset + format::kJournalBlockBytes <= end_offset; ++number) {
    if (offset >= window_end) {
      window_begin = offset;
      window_end = std::min(offset + kWindowBytes, end_offset);
      ENGINE_RACE_RETURN_IF_ERROR(
          file_.Read(window.data(), window_end - window_begin, window_begin));
    }
    char* const block = window.data() + (offset - window_begin);
    format::JournalHeader header;
    if (!ParseHeader(block, store_id, &header)) return Status::Ok();
    if (number == 0) generation = header.generation;
    if (header.generation != generation || header.batch_number != number) return Status::Ok();
    offset += format::kJournalBlockBytes;
    for (uint32_t i = 0; i < header.record_count; ++i) {
      Record record;
      std::memcpy(&record.descriptor,
                  block + sizeof(header) + i * sizeof(format::JournalDescriptor),
                  sizeof(record.descriptor));
      record.value_offset = offset;
      const bool tombstone = (record.descriptor.entry.check >> format::kTombstoneShift & 1) != 0;
      if (!tombstone) offset += kValueBytes;
      if (offset > end_offset) return Status::Ok();
      records_.push_back(record);
    }
  }
  return Status::Ok();
}

const JournalReplay::Record* JournalReplay::Find(uint32_t bucket, uint64_t sequence) const {
  const std::pair<uint32_t, uint64_t> position(bucket, sequence);
  const auto found = std::lower_bound(
      records_.begin(), records_.end(), position,
      [](const Record& record, const auto& wanted) { return PositionOf(record) < wanted; });
  return found != records_.end() && PositionOf(*found) == position ? &*found : nullptr;
}

std::span<const JournalReplay::Record> JournalReplay::RecordsOf(uint32_t bucket) const {
  const auto first_of = [this](uint32_t number) {
    const std::pair<uint32_t, uint64_t> position(number, 0);
    return std::lower_bound(
        records_.begin(), records_.end(), position,
        [](const Record& record, const auto& wanted) { return PositionOf(record) < wanted; });
  };
  return {first_of(bucket), first_of(bucket + 1)};
}

Status JournalReplay::Erase(int dir_fd) {
  io::File file;
  uint64_t half_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenJournal(dir_fd, io::Access::kReadWrite, &file, &half_bytes));
  if (half_bytes == 0) return Status::Ok();
  Region zeros;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kJournalBlockBytes, /*huge_pages=*/false, &zeros));
  for (uint32_t half = 0; half < format::kJournalHalves; ++half) {
    ENGINE_RACE_RETURN_IF_ERROR(
        file.Write(zeros.data(), format::kJournalBlockBytes, half * half_bytes));
  }
  return file.DataSync();
}

}  // namespace engine_race
