// What a power-cut trial writes down beside the store, in sectors behind the file system: which
// operations were acknowledged as durable, and what earlier verifications found.
//
// Every record is one direct write, made after the store answered, to one of two places in turn, so
// that a cut in the middle of it leaves the record before. A disk that is put together from a log
// of writes takes all of these writes up to its moment: an acknowledgement that the log holds was
// preceded there by every flush that it rests on.
//
// Thread safety: an Acker belongs to one thread; the rest is for the time when no writer runs.
#ifndef HARNESS_GUEST_POWER_LEDGER_H_
#define HARNESS_GUEST_POWER_LEDGER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "harness/guest/power_plan.h"

namespace engine_race::powercut {

// One for each writer, and one for the thread that calls Sync.
inline constexpr uint32_t kAckerCount = kWriterCount + 1;
inline constexpr uint32_t kMaxEpochCount = 60;

// By writer: the last operation that was acknowledged as durable.
using Acked = std::array<uint32_t, kWriterCount>;

class Ledger {
 public:
  // `offset` is where the ledger's area begins on the device.
  Status Open(const std::string& device, uint64_t offset);

  // What verifications found, by epoch; empty for a disk that has seen none. `epoch_count` counts
  // the last epoch too, which has no entry yet.
  Status ReadHistory(const Plan& plan, std::vector<Kept>* kept, uint32_t* epoch_count);
  // The epoch after the last `kept` begins.
  Status WriteHistory(const Plan& plan, const std::vector<Kept>& kept);

  // The highest acknowledgements of an epoch.
  Status ReadAcked(const Plan& plan, uint32_t epoch, Acked* acked);
  Status WriteAcked(const Plan& plan, uint32_t epoch, uint32_t acker, uint64_t sequence,
                    const Acked& acked);

 private:
  static constexpr uint32_t kRecordBytes = 4096;
  struct Record;

  Status Read(uint32_t place, Record* record, bool* valid);
  Status Write(uint32_t place, Record* record);

  UniqueFd fd_;
  uint64_t offset_ = 0;
  uint64_t history_sequence_ = 0;
};

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_LEDGER_H_
