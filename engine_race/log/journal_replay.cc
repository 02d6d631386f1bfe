#include "engine_race/log/journal_replay.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/slot_table.h"

namespace engine_race {
namespace {

// Of the journal, read at once: several small batches, and not much of a large one.
constexpr uint64_t kWindowBytes = 128 * 1024;
static_assert(kWindowBytes % format::kJournalBlockBytes == 0);

std::pair<uint32_t, uint64_t> PositionOf(const JournalReplay::Record& record) {
  return {record.descriptor.bucket, record.descriptor.entry.sequence()};
}

// Checks the block at `block`, which it changes, and copies its header.
bool ParseHeader(char* block, const StoreIds& ids, format::JournalHeader* header) {
  std::memcpy(header, block, sizeof(*header));
  if (header->magic != format::kJournalMagic || header->store_id != ids.store_id ||
      header->seed_id != ids.seed_id || header->record_count > format::kJournalBatchRecords) {
    return false;
  }
  reinterpret_cast<format::JournalHeader*>(block)->checksum = 0;
  return header->checksum == Hash64(block, format::kJournalBlockBytes, format::kJournalMagic);
}

// The chain that a half's batches belong to, followed from batch to batch.
class Chain {
 public:
  // `begin`: how many records there are.
  explicit Chain(size_t begin) : begin_(begin) {}

  // Whether a batch with this header may come next: the next one of the chain, or, when none is
  // open, a single one or the first of a chain.
  bool Continues(const format::JournalHeader& header) const {
    if (header.chain_id == 0) return id_ == 0;
    return header.chain_index < header.chain_length && header.chain_index == next_ &&
           (next_ == 0 || (header.chain_id == id_ && header.chain_length == length_));
  }
  // Whether it is the last one of its chain.
  static bool Ends(const format::JournalHeader& header) {
    return header.chain_id != 0 && header.chain_index + 1 == header.chain_length;
  }
  // Takes the batch in, whose records end at `end`.
  void Take(const format::JournalHeader& header, size_t end) {
    const bool open = header.chain_id != 0 && !Ends(header);
    id_ = open ? header.chain_id : 0;
    length_ = header.chain_length;
    next_ = open ? header.chain_index + 1 : 0;
    if (!open) begin_ = end;
  }
  // The records before this one count.
  size_t begin() const { return begin_; }

 private:
  size_t begin_;
  uint64_t id_ = 0;
  uint32_t length_ = 0;
  uint32_t next_ = 0;
};

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

Status JournalReplay::Read(int dir_fd, const StoreIds& ids, uint32_t value_bytes) {
  value_bytes_ = value_bytes;
  uint64_t half_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(OpenJournal(dir_fd, io::Access::kRead, &file_, &half_bytes));
  if (half_bytes == 0) return Status::Ok();
  Region window;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kWindowBytes, /*huge_pages=*/false, &window));
  for (uint32_t half = 0; half < format::kJournalHalves; ++half) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadHalf(ids, half * half_bytes, (half + 1) * half_bytes, window));
  }
  std::sort(records_.begin(), records_.end(),
            [](const Record& a, const Record& b) { return PositionOf(a) < PositionOf(b); });
  return Status::Ok();
}

// `window` is where the half is read into, some batches at a time.
Status JournalReplay::ReadHalf(const StoreIds& ids, uint64_t begin_offset, uint64_t end_offset,
                               const Region& window) {
  uint64_t generation = 0;
  uint64_t offset = begin_offset;
  uint64_t window_end = begin_offset;
  uint64_t window_begin = begin_offset;
  Chain chain(records_.size());
  for (uint32_t number = 0; offset + format::kJournalBlockBytes <= end_offset; ++number) {
    if (offset >= window_end) {
      window_begin = offset;
      window_end = std::min(offset + kWindowBytes, end_offset);
      ENGINE_RACE_RETURN_IF_ERROR(
          file_.Read(window.data(), window_end - window_begin, window_begin));
    }
    char* const block = window.data() + (offset - window_begin);
    format::JournalHeader header;
    if (!ParseHeader(block, ids, &header)) break;
    if (number == 0) generation = header.generation;
    if (header.generation != generation || header.batch_number != number) break;
    if (!chain.Continues(header)) break;
    offset += format::kJournalBlockBytes;
    for (uint32_t i = 0; i < header.record_count; ++i) {
      Record record;
      std::memcpy(&record.descriptor,
                  block + sizeof(header) + i * sizeof(format::JournalDescriptor),
                  sizeof(record.descriptor));
      record.value_offset = offset;
      if (!record.descriptor.entry.tombstone()) offset += value_bytes_;
      if (offset > end_offset) break;
      records_.push_back(record);
    }
    offset = RoundUp(offset, format::kJournalBlockBytes);
    if (offset > end_offset) break;
    bool whole = true;
    if (chain.Ends(header)) {
      ENGINE_RACE_RETURN_IF_ERROR(VerifyValues(ids.seed_id, chain.begin(), &whole));
    }
    if (!whole) break;
    chain.Take(header, records_.size());
  }
  // Those of a chain that does not end count for nothing.
  records_.resize(std::min(records_.size(), chain.begin()));
  return Status::Ok();
}

// *whole: every record from the one at `first` on has its value in the journal. The header of a
// batch may outlive a power loss without the values behind it.
Status JournalReplay::VerifyValues(uint64_t seed_id, size_t first, bool* whole) const {
  *whole = false;
  Region value;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(value_bytes_, /*huge_pages=*/false, &value));
  for (size_t i = first; i < records_.size(); ++i) {
    const format::JournalDescriptor& descriptor = records_[i].descriptor;
    KeyRecord record;
    if (!SlotTable::DecodeAppended(EntryCodec(seed_id, descriptor.bucket), descriptor.entry,
                                   descriptor.entry.sequence(), &record)) {
      return Status::Ok();
    }
    if (record.tombstone) continue;
    ENGINE_RACE_RETURN_IF_ERROR(ReadValue(records_[i], value.data()));
    if (!IsValueOf(record, value.data(), value_bytes_)) return Status::Ok();
  }
  *whole = true;
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
