// The operations of a power-cut trial's writers, and the contents that a store may therefore have.
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

#include "engine_race/base/options.h"
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

}  // namespace engine_race::powercut

#endif  // HARNESS_GUEST_POWER_PLAN_H_
