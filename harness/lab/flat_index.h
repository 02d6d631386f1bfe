// An index of flat arrays in memory, which the engine's lookups are compared with: the engine's
// sorted runs, with nothing around them. And lookups of many keys, by it and by the engine's index.
//
// Nothing is added or evicted once lookups begin. A lookup pays for its search and for the reader's
// entry into an epoch. It also takes the bucket's lock, shared, if the bucket has several runs or
// the key does not lie where even spreading would put it. The engine's index did so while it was
// flat arrays alone; now it needs no lock there. Runs have the size that the engine gives them.
//
// Thread safety: AddBucket and MakeFlatIndex from one thread, before all lookups. Lookups from any
// thread.
#ifndef HARNESS_LAB_FLAT_INDEX_H_
#define HARNESS_LAB_FLAT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/index/part_memory.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/sorted_run.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/geometry.h"

namespace engine_race::lab {

class FlatIndex {
 public:
  // The most keys of a run.
  static constexpr size_t kRunKeys = size_t{128} << 10;
  // The most keys of a batch.
  static constexpr size_t kBatchKeys = 64;

  explicit FlatIndex(const Geometry& geometry);

  // `entries` are all of the bucket, ascending, of distinct keys.
  Status AddBucket(uint32_t bucket, std::span<const IndexEntry> entries);

  // False when the key is not there.
  bool Find(uint64_t key, ValueRef* ref) const;
  // Without locks. Finds keys[i] into refs[i], at most kBatchKeys of them, with the waits for
  // memory overlapped. Returns how many of the keys are there; the references of the others are
  // unspecified.
  size_t FindBatch(std::span<const uint64_t> keys, std::span<ValueRef> refs) const;

 private:
  using Run = SortedRun;
  struct Bucket {
    // The first run lies here, so that a bucket of one run takes no further step.
    Run first;
    mutable ReadWriteLock lock;
    std::vector<Run> more;
    std::vector<uint64_t> more_first_keys;
  };

  Status MakeRun(std::span<const IndexEntry> entries, Run* run);
  // The only run that can contain the key.
  const Run& RunOf(uint64_t key) const;
  bool FindSlowly(uint64_t key, ValueRef* ref) const;

  const Geometry geometry_;
  std::vector<Bucket> buckets_;
  SlabAllocator slabs_;
  mutable l1::EpochManager epochs_;
};

// Flat arrays with the records of a log, each key of which has one record. Before there is an index
// over the log: reading an entry ends the log's reports to it.
Status MakeFlatIndex(BucketLog* log, std::unique_ptr<FlatIndex>* flat);

// Lookups of keys one by one, or together in batches of at most FlatIndex::kBatchKeys. Each call
// adds the slots of all keys to *slot_sum, and looks up no more once a key is not found.

// The lookups of a reader: each inside the epoch. kIncomplete if a block is in no frame.
Status FindEach(const Index& index, std::span<const uint64_t> keys, uint64_t* slot_sum);
// A batch is as the lookups of one MultiRead.
Status FindTogether(const Index& index, std::span<const uint64_t> keys, uint64_t* slot_sum);
Status FindEach(const FlatIndex& flat, std::span<const uint64_t> keys, uint64_t* slot_sum);
Status FindTogether(const FlatIndex& flat, std::span<const uint64_t> keys, uint64_t* slot_sum);

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_FLAT_INDEX_H_
