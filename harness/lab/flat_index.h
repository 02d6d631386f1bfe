// An index of flat arrays in memory, which the engine's lookups are compared with. It has sorted
// keys, references beside them, and a radix table of sixteen keys a cell.
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

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/index/cell_map.h"
#include "engine_race/index/read_write_lock.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/value_ref.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/log/geometry.h"

namespace lab {

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
  struct Run {
    engine_race::CellMap map;
    const uint64_t* keys = nullptr;
    const engine_race::RefWord* refs = nullptr;
    const uint32_t* cells = nullptr;
    size_t count = 0;
  };
  struct Bucket {
    // The first run lies here, so that a bucket of one run takes no further step.
    Run first;
    mutable engine_race::ReadWriteLock lock;
    std::vector<Run> more;
    std::vector<uint64_t> more_first_keys;
  };
  // Where a key would be if the keys of its cell were spread evenly.
  struct Guess {
    const Run* run = nullptr;
    engine_race::CellMap::Position position;
    uint32_t begin = 0;
    uint32_t size = 0;
    size_t rank = 0;

    size_t window() const;
    void ReadCells();
  };

  engine_race::Status MakeRun(std::span<const engine_race::IndexEntry> entries, Run* run);
  // `bytes` of memory in huge pages, aligned to cache lines.
  engine_race::Status Allocate(size_t bytes, char** memory);
  // Null when no run contains the key.
  const Run* RunOf(uint64_t key) const;
  // The word of the key, searched near the guess; null when it is not there.
  static const engine_race::RefWord* LocateNear(const Guess& guess, uint64_t key);
  // Searched near the guess, then in its cell.
  static const engine_race::RefWord* Locate(const Guess& guess, uint64_t key);
  static Guess GuessIn(const Run& run, uint64_t key);
  bool FindSlowly(uint64_t key, engine_race::ValueRef* ref) const;

  const engine_race::Geometry geometry_;
  std::vector<Bucket> buckets_;
  std::vector<engine_race::Region> slabs_;
  size_t slab_used_ = 0;
  mutable engine_race::l1::EpochManager epochs_;
};

}  // namespace lab

#endif  // HARNESS_LAB_FLAT_INDEX_H_
