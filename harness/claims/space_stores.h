// The stores of the bench about space: their records, what a measurement needs to know of them, how
// they are opened and filled. Also the works of children, and the space of stores of odd shapes.
//
// Thread safety: see each declaration.
#ifndef HARNESS_CLAIMS_SPACE_STORES_H_
#define HARNESS_CLAIMS_SPACE_STORES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/store.h"
#include "harness/data/key_source.h"
#include "harness/data/value_maker.h"
#include "harness/measure/claim_rounds.h"
#include "harness/system/child_process.h"

namespace engine_race::harness {

// The records of a run. Immutable; thread-safe.
class SpaceRecords {
 public:
  SpaceRecords(uint64_t count, uint64_t seed, KeyShape keys = KeyShape::kUniform)
      : keys_(keys, count, seed), values_(seed) {}

  uint64_t count() const { return keys_.record_count(); }
  // number < count().
  uint64_t KeyAt(uint64_t number) const { return keys_.KeyAt(number); }
  const KeySource& keys() const { return keys_; }
  const ValueMaker& values() const { return values_; }

 private:
  const KeySource keys_;
  const ValueMaker values_;
};

// Stores of a measurement, and what is done to them.
struct SpaceShape {
  std::string dir;  // of the store
  Options options;
  uint64_t record_count = 1;
  uint32_t thread_count = 1;
  uint32_t pass_count = 1;  // how often the records are written again
  double idle_seconds = 0;  // between deletions and their measurement
  uint64_t seed = 1;

  // A shape with a directory of its own in that of this one.
  SpaceShape Below(const std::string& name) const;
};

// The most disk space of a store with these bytes of values that is overwritten, with staging,
// journal and buffers.
constexpr uint64_t MostStoreBytes(uint64_t data_bytes) {
  return data_bytes / 4 * 9 + (uint64_t{1} << 30);
}

// Opens the store, made when missing, and closes it after work(store).
template <typename Work>
Status WithOpenStore(const SpaceShape& shape, const Work& work) {
  std::unique_ptr<Store> store;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(shape.options, shape.dir, &store));
  return work(store.get());
}

// Writes each record once, in as many threads as the shape has.
Status FillStore(const SpaceShape& shape, const SpaceRecords& records, Store* store);

// The works of children of the bench about space, see harness/system/child_process.h: writes in
// little memory, and small stores.

// Writes spread keys to a new store in one thread, until `write_count` are written or `seconds`
// have passed. `cgroup` is the path of the group that the child joins before; empty: none.
inline constexpr char kSmallMemoryWork[] = "small-memory";
// Makes `store_count` stores in `parent_dir`, which has no files, all open at once and at default
// options. Writes `record_count` records to each, and closes them. Answers with what they took
// while they were open and how long it took. The disk space is the larger one of before and after
// closing.
inline constexpr char kSmallStoresWork[] = "small-stores";
ChildWorks SpaceWorks();

// Disk space of stores that are hard to keep small: after deletions, with small buckets, with a
// single one, and with a window of keys.
//
// Removes the directory of the shape in the end: it has one store after another. Those with
// deletions have its records, overwritten ones an eighth of them.
//
// Notes the space on disk over the values of the live records and 64 MiB:
// - deleted_space_idle, deleted_space_compacted: after nine of ten records were deleted, before and
//   after Compact; the larger figure of spread and dense keys, which are noted too
// - one_bucket_space: dense keys; the most in the second half of the overwriting
// - fifo_space: keys rise; each write deletes the key that is as many keys behind it as the store
//   has
// - small_bucket_space: 250 records a bucket, or all if that is less; as one_bucket_space
// - apparent_over_used: in the end, the sizes of all files over their space on disk.
//
// Returns the first failure of a call, or kIncomplete when the user interrupts.
Status MeasureSpaceShapes(const SpaceShape& shape, ClaimRounds* rounds);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_STORES_H_
