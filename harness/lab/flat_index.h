// An index of flat arrays in memory, which the engine's lookups are compared with: the engine's
// sorted runs, with nothing around them.
//
// Nothing is added or evicted once lookups begin. A lookup pays for its search and for the reader's
// entry into an epoch. It also takes the bucket's lock, shared, if the bucket has several runs or
// the key does not lie where even spreading would put it. The engine's index did so while it was
// flat arrays alone; now it needs no lock there. Runs have the size that the engine gives them.
//
// Thread safety: AddBucket from one thread, before all lookups. Lookups from any thread.
#ifndef HARNESS_LAB_FLAT_INDEX_H_
#define HARNESS_LAB_FLAT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/log/geometry.h"

namespace engine_race::lab {

class FlatIndex {
 public:
  // The most keys of a run.
  static constexpr size_t kRunKeys = size_t{128} << 10;
  // The most keys of a batch.
  static constexpr size_t kBatchKeys = 64;

  explicit FlatIndex(const engine_race::Geometry& geometry);

  // `entries` are all of the bucket, ascending, of distinct keys.
  engine_race::Status AddBucket(uint32_t bucket, std::span<const engine_race::IndexEntry> entries);

  // False when the key is not there.
  bool Find(uint64_t key, engine_race::ValueRef* ref) const;
  // Without locks. Finds keys[i] into refs[i], at most kBatchKeys of them, with the waits for
  // memory overlapped. Returns how many of the keys are there; the references of the others are
  // unspecified.
  size_t FindBatch(std::span<const uint64_t> keys, std::span<engine_race::ValueRef> refs) const;

 private:
  using Run = engine_race::SortedRun;
  struct Bucket {
    // The first run lies here, so that a bucket of one run takes no further step.
    Run first;
    mutable engine_race::ReadWriteLock lock;
    std::vector<Run> more;
    std::vector<uint64_t> more_first_keys;
  };

  engine_race::Status MakeRun(std::span<const engine_race::IndexEntry> entries, Run* run);
  // The only run that can contain the key.
  const Run& RunOf(uint64_t key) const;
  bool FindSlowly(uint64_t key, engine_race::ValueRef* ref) const;

  const engine_race::Geometry geometry_;
  std::vector<Bucket> buckets_;
  engine_race::SlabAllocator slabs_;
  mutable engine_race::l1::EpochManager epochs_;
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_FLAT_INDEX_H_
