#include "harness/guest/power_plan.h"

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "harness/data/mix.h"

namespace engine_race::powercut {

namespace {

constexpr uint32_t kDeletePercent = 15;
// Keys that are written more often than the others.
constexpr uint32_t kHotKeyCount = 6;

}  // namespace

Options Plan::StoreOptions() const {
  uint64_t draw = harness::MixAt(seed_, 0);
  const auto next = [&draw](uint64_t bound) {
    draw = harness::Mix64(draw + 1);
    return draw % bound;
  };
  Options options;
  options.bucket_count = kBucketCount;
  options.file_count = 1u << next(3);
  options.bucket_capacity_records = 16384;
  options.value_group_bytes = 4096u << next(5);
  options.key_group_bytes = 4096u << next(2);
  options.memory_budget_bytes = uint64_t{32} << 20;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

Operation Plan::OperationAt(uint32_t writer, uint32_t cycle, uint32_t number) const {
  const uint64_t word =
      harness::MixAt(harness::MixAt(seed_, Version(cycle, number)), uint64_t{writer});
  Operation operation;
  // Most operations are in one bucket of the writer, so that whole groups of entries fill between
  // two cuts.
  operation.bucket = writer + ((word & 7) == 0 ? kWriterCount : 0);
  const bool hot = (word >> 3 & 3) == 0;
  operation.key_index =
      static_cast<uint32_t>((word >> 8 & 0xffff) % (hot ? kHotKeyCount : kKeysPerBucket));
  operation.is_delete = (word >> 32 & 0xffff) % 100 < kDeletePercent;
  return operation;
}

uint64_t Plan::KeyAt(uint32_t bucket, uint32_t key_index) const {
  const uint64_t low = harness::MixAt(seed_, (uint64_t{bucket} << 32) + key_index);
  return uint64_t{bucket} << (64 - kBucketBits) | low >> kBucketBits;
}

void Model::Apply(uint32_t cycle, uint32_t number) {
  const Operation operation = plan_.OperationAt(Plan::WriterOf(bucket_), cycle, number);
  if (operation.bucket != bucket_) return;
  versions_[operation.key_index] = operation.is_delete ? 0 : Plan::Version(cycle, number);
}

namespace {

constexpr uint64_t kMagic = 0x7265776f70647543;

}  // namespace

// Both kinds of record have one layout.
struct alignas(4096) Ledger::Record {
  uint64_t magic;
  uint64_t seed;
  uint64_t place;
  uint64_t sequence;  // the higher one of a pair of sectors is the newer
  uint64_t cycle;
  Acked acked;
  Kept kept[kMaxCycleCount];
  uint64_t checksum;

  uint64_t Sum() const {
    uint64_t sum = kMagic;
    const auto* bytes = reinterpret_cast<const char*>(this);
    for (size_t at = 0; at < offsetof(Record, checksum); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes + at, sizeof(word));
      sum = harness::Mix64(sum + word);
    }
    return sum;
  }
};

Status Ledger::Open(const std::string& device, uint64_t offset) {
  static_assert(sizeof(Record) == kRecordBytes, "one write");
  offset_ = offset;
  return sys::OpenAt(AT_FDCWD, device, O_RDWR | O_DIRECT, 0, &fd_);
}

Status Ledger::Read(uint32_t place, Record* record, bool* valid) {
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::PreadFull(fd_.get(), record, kRecordBytes, offset_ + uint64_t{place} * kRecordBytes));
  *valid = record->magic == kMagic && record->place == place && record->checksum == record->Sum();
  return Status::Ok();
}

Status Ledger::Write(uint32_t place, Record* record) {
  record->magic = kMagic;
  record->place = place;
  record->checksum = record->Sum();
  return sys::PwriteFull(fd_.get(), record, kRecordBytes, offset_ + uint64_t{place} * kRecordBytes);
}

Status Ledger::ReadHistory(const Plan& plan, std::vector<Kept>* kept, uint32_t* cycle_count) {
  kept->clear();
  *cycle_count = 0;
  for (uint32_t place = 0; place < 2; ++place) {
    Record record;
    bool valid = false;
    ENGINE_RACE_RETURN_IF_ERROR(Read(place, &record, &valid));
    if (!valid || record.seed != plan.seed() || record.sequence <= history_sequence_) continue;
    history_sequence_ = record.sequence;
    *cycle_count = static_cast<uint32_t>(record.cycle);
    kept->assign(record.kept, record.kept + record.cycle - 1);
  }
  return Status::Ok();
}

Status Ledger::WriteHistory(const Plan& plan, const std::vector<Kept>& kept) {
  if (kept.size() >= kMaxCycleCount) return Status::Full("the ledger holds no more cycles");
  Record record = {};
  record.seed = plan.seed();
  record.sequence = ++history_sequence_;
  record.cycle = kept.size() + 1;
  std::copy(kept.begin(), kept.end(), record.kept);
  return Write(history_sequence_ % 2, &record);
}

Status Ledger::ReadAcked(const Plan& plan, uint32_t cycle, Acked* acked) {
  acked->fill(0);
  for (uint32_t place = 2; place < 2 + 2 * kAckerCount; ++place) {
    Record record;
    bool valid = false;
    ENGINE_RACE_RETURN_IF_ERROR(Read(place, &record, &valid));
    if (!valid || record.seed != plan.seed() || record.cycle != cycle) continue;
    for (uint32_t writer = 0; writer < kWriterCount; ++writer) {
      (*acked)[writer] = std::max((*acked)[writer], record.acked[writer]);
    }
  }
  return Status::Ok();
}

Status Ledger::WriteAcked(const Plan& plan, uint32_t cycle, uint32_t acker, uint64_t sequence,
                          const Acked& acked) {
  Record record = {};
  record.seed = plan.seed();
  record.sequence = sequence;
  record.cycle = cycle;
  record.acked = acked;
  return Write(2 + 2 * acker + sequence % 2, &record);
}

}  // namespace engine_race::powercut
