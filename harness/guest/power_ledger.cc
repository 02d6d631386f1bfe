#include "harness/guest/power_ledger.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <fcntl.h>

#include "harness/data/mix.h"

namespace engine_race::powercut {
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
