// Staging: where a record lives between its acknowledgement and its group's write to the log, and
// the counts that say how far each bucket has come. Files mapped MAP_SHARED, so that what is
// stored in them belongs to the kernel the moment the store retires: kill -9 cannot take it back.
//
// Thread safety: Reserve and the reads from any thread; the places of one bucket are written under
// that bucket's lock. Nothing may be stored through the mappings before Reserve has succeeded for
// the bucket in this opening: a hole on a full disk would be a SIGBUS.
#ifndef ENGINE_RACE_LOG_STAGING_H_
#define ENGINE_RACE_LOG_STAGING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/io/file.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/format.h"
#include "engine_race/log/geometry.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// The words of a bucket's counts, decoded.
struct BucketState {
  uint64_t record_count = 0;
  uint64_t flushed_value_count = 0;
  uint64_t flushed_key_count = 0;
  uint32_t value_places = 0;
  uint32_t key_places = 0;
  uint64_t synced_count = 0;
  uint32_t page_cache_id = 0;
  bool damaged = false;
};

// The words of a state, with their checks.
format::BucketCounts EncodeCounts(uint64_t store_id, uint32_t bucket, const BucketState& state);

class Staging {
 public:
  // Keeps references into `files`, which must outlive it.
  explicit Staging(const StoreFiles& files);

  Status Map();

  // Reads and checks the counts of every bucket with pread. Damaged ones are marked, not used.
  Status ReadCounts(std::vector<BucketState>* states) const;

  // Makes sure that stores to the bucket's counts and base places cannot fail. kFull on a full
  // disk. Cheap after the first call for a bucket.
  Status Reserve(uint32_t bucket) {
    // Acquire pairs with the release in ReserveCluster: the space is there.
    if (reserved_[ClusterOf(bucket)].load(std::memory_order_acquire)) [[likely]] {
      return Status::Ok();
    }
    return ReserveCluster(ClusterOf(bucket));
  }
  // For the counts of all buckets alone.
  Status ReserveCounts();
  // The same for one of the bucket's extra value places.
  Status ReserveExtraPlace(uint32_t bucket, uint32_t place);

  // Mapped places.
  char* ValuePlace(uint32_t bucket, uint32_t place) const {
    return values_.data() + geometry_.ValuePlaceOffset(bucket, place);
  }
  format::KeyEntry* KeyPlace(uint32_t bucket, uint32_t place) const {
    return reinterpret_cast<format::KeyEntry*>(keys_.data() +
                                               geometry_.KeyPlaceOffset(bucket, place));
  }

  // Replaces one word of the bucket's counts with a single aligned store.
  void PublishWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const;
  // Replaces the whole line of a bucket at once, past the mapping.
  Status WriteLine(uint32_t bucket, const BucketState& state) const;

  // Records [index, index + count) of the group in a place, through pread: an error is a Status
  // here and a SIGBUS through the mapping.
  Status ReadValues(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                    char* buffer) const;
  Status ReadKeys(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                  format::KeyEntry* buffer) const;

  // Mapped memory that this opening has made resident at most.
  uint64_t memory_bytes() const;

 private:
  uint32_t ClusterOf(uint32_t bucket) const { return bucket / cluster_buckets_; }
  Status ReserveCountsLocked();
  BucketState Decode(uint32_t bucket, const format::BucketCounts& line) const;
  Status ReserveCluster(uint32_t cluster);
  Status ReserveRange(const io::File& file, uint64_t offset, uint64_t size) const;

  const StoreFiles& files_;
  const Geometry& geometry_;
  // Buckets are reserved some at a time: fewer system calls, yet a small store stays small.
  const uint32_t cluster_buckets_;
  const uint32_t cluster_count_;
  SharedMapping counts_;
  SharedMapping keys_;
  SharedMapping values_;
  std::mutex reserve_mutex_;
  bool counts_reserved_ = false;  // under reserve_mutex_
  std::unique_ptr<std::atomic<bool>[]> reserved_;
  std::atomic<uint64_t> reserved_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_STAGING_H_
