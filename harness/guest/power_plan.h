// The power-cut trial: its plan, its ledger, its load and its verification.
//
// A plan has the operations of the writers, and the contents that a store may therefore have.
// All of it follows from a seed, so a guest that boots after the cut can compute it.
//
// Each bucket belongs to one writer, so the order of its writes is the order of that writer's
// operations. A cycle is the time from one start of the writers to the next cut; operations are
// numbered from 1 in each.
//
// An operation that a cut removed must not come back. So later cycles go on from the findings of
// the verification: `kept` has, for each bucket, the last operation of a cycle that survived.
//
// Thread safety: a Plan is immutable, a Model belongs to one thread.
#ifndef HARNESS_GUEST_POWER_PLAN_H_
#define HARNESS_GUEST_POWER_PLAN_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/base/sys.h"
#include "engine_race/store.h"
#include "harness/data/value_maker.h"

namespace engine_race::powercut {

inline constexpr uint32_t kWriterCount = 4;
inline constexpr uint32_t kBucketCount = 8;
inline constexpr uint32_t kBucketBits = 3;
inline constexpr uint32_t kKeysPerBucket = 48;
static_assert(kBucketCount == 1u << kBucketBits && kBucketCount == 2 * kWriterCount);

struct Operation {
  uint32_t bucket = 0;
  uint32_t key_index = 0;  // in the bucket
  bool is_delete = false;
};

class Plan {
 public:
  explicit Plan(uint64_t seed) : seed_(seed), values_(seed) {}

  uint64_t seed() const { return seed_; }
  // Geometry drawn from the seed, and budgets that fit the guest.
  Options StoreOptions() const;
  static uint32_t WriterOf(uint32_t bucket) { return bucket % kWriterCount; }
  Operation OperationAt(uint32_t writer, uint32_t cycle, uint32_t number) const;
  uint64_t KeyAt(uint32_t bucket, uint32_t key_index) const;

  // The version that an operation writes; 0 is "no value".
  static uint64_t Version(uint32_t cycle, uint32_t number) {
    return (uint64_t{cycle} << 32) | number;
  }
  void FillValue(uint64_t key, uint64_t version, char* value) const {
    values_.Fill(key, version, value);
  }
  // False when the plan never writes this value under this key.
  bool ReadVersion(uint64_t key, const std::string& value, uint64_t* version) const {
    return value.size() == kValueBytes && values_.CheckAll(key, value.data(), version);
  }

 private:
  uint64_t seed_;
  harness::ValueMaker values_;
};

// By bucket: the last operation of a cycle that survived.
using Kept = std::array<uint32_t, kBucketCount>;

// One bucket as it must be after some of its writer's operations: a version for each key.
class Model {
 public:
  Model(const Plan& plan, uint32_t bucket) : plan_(plan), bucket_(bucket) {}

  // Applies operation `number` of the cycle if it is one of this bucket's.
  void Apply(uint32_t cycle, uint32_t number);
  const std::array<uint64_t, kKeysPerBucket>& versions() const { return versions_; }

 private:
  const Plan& plan_;
  const uint32_t bucket_;
  std::array<uint64_t, kKeysPerBucket> versions_ = {};
};

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

// The init of a power-cut guest. It verifies the store on /dev/nvme0n1 as the last cut left it,
// then loads it until the next cut.
//
// scripts/powercut.py boots it and reads its lines on the serial console. The kernel's command line
// has
//   pc_seed         of the plan
//   pc_ledger       where on the device the ledger begins, bytes
//   pc_load         1: load after the verification; otherwise the guest powers off
//   pc_mode         none, group or every
//   pc_sync_ms, pc_pace_us, pc_operations   the load, see LoadPlan
//   pc_writeback    of the kernel, in centiseconds: how soon it writes dirty pages by itself
//   pc_reset_from   mount or load: resets the machine pc_reset_ms after that

struct LoadPlan {
  SyncMode sync_mode = SyncMode::kNone;
  uint32_t cycle = 0;
  // A thread calls Sync at this interval; 0: never.
  uint32_t sync_every_ms = 0;
  // The pause of a writer after each operation.
  uint32_t pace_us = 0;
  // The most operations of each writer; then it waits for the cut.
  uint32_t operation_count = 0;
};

// The writers make their operations until the cut. Returns only after a failure, with its
// description; otherwise the cut ends it.
std::string RunLoad(const Plan& plan, const LoadPlan& load, Store* store, Ledger* ledger);

// Compares the store with its plan: checks that Range and Read agree, and that nothing is found
// which was never written. Every bucket must show a prefix of its writer's operations in the last
// cycle, on top of the state that the earlier cycles left. The prefix must reach the acknowledged
// operations.
//
// `kept` holds the earlier cycles. The last cycle is added unless `cycle_count` says that there is
// none. Returns the first violation, or nothing.
std::string Verify(const Plan& plan, Store* store, const Acked& acked, uint32_t cycle_count,
                   std::vector<Kept>* kept);

[[noreturn]] void Run();

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_PLAN_H_
