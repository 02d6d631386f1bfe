// The ledger of a power-cut trial, in sectors behind the store's file system. It notes which
// operations were acknowledged as durable, and what earlier verifications found.
//
// Every record is one direct write, made after the store has answered. It goes to one of two
// sectors in turn, so a cut in the middle of it leaves the record before it intact.
//
// scripts/powercut_replay.py makes disks from a log of the device's writes. Such a disk has all the
// ledger's writes up to its moment. The log has every flush before the acknowledgement that depends
// on it.
//
// Thread safety: threads may call WriteAcked at once, each with an `acker` of its own. The other
// calls are for times when no writer runs.
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

// One acker for each writer, and one for the thread that calls Sync.
inline constexpr uint32_t kAckerCount = kWriterCount + 1;
inline constexpr uint32_t kMaxCycleCount = 60;

// By writer: the last operation that was acknowledged as durable.
using Acked = std::array<uint32_t, kWriterCount>;

class Ledger {
 public:
  // `offset` is where the ledger's area begins on the device.
  Status Open(const std::string& device, uint64_t offset);

  // Reads the findings of verifications, one entry a cycle; none from a new disk. `cycle_count`
  // counts the last cycle too, which has no entry yet.
  Status ReadHistory(const Plan& plan, std::vector<Kept>* kept, uint32_t* cycle_count);
  // Notes that the cycle after those of `kept` begins.
  Status WriteHistory(const Plan& plan, const std::vector<Kept>& kept);

  // Reads the highest acknowledgements of a cycle.
  Status ReadAcked(const Plan& plan, uint32_t cycle, Acked* acked);
  Status WriteAcked(const Plan& plan, uint32_t cycle, uint32_t acker, uint64_t sequence,
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
