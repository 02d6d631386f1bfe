// The content of a new store that is copied from another: its shape and its logs.
//
// All records of a copy lie in its logs and count as synced. Nothing is staged, and there is no
// journal. Its counts (WriteNewCounts) name no page cache, so its first opening trusts only the
// synced watermarks.
//
// Thread safety: a BucketFill belongs to one thread and fills other buckets than the others do; the
// functions are stateless. The caller owns the files.
#ifndef ENGINE_RACE_COPIES_COPIED_STORE_H_
#define ENGINE_RACE_COPIES_COPIED_STORE_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Options that make a store of this geometry. Where its values lie is for `options` to say.
Options WithGeometryOf(const Geometry& geometry, const Options& options);

// Writes records into the logs of a new store, a bucket after another, each in order of slot from 0
// on. Values are written by whole pieces of segments, 1 MiB or one value at once, and entries by
// whole pages.
class BucketFill {
 public:
  // Keeps a reference to `files`.
  explicit BucketFill(const StoreFiles& files);

  Status Init();
  // The next record of the bucket. `value` is null for a tombstone, `value_hash` is HashValue of
  // it. kFull when the bucket has no room for the record.
  Status Add(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash);
  // Writes the last records of a bucket. *record_count: how many it has.
  Status Finish(uint32_t bucket, uint64_t* record_count);

 private:
  Status WriteKeys(uint32_t bucket, uint64_t end);
  Status WriteValues(uint32_t bucket, uint64_t end);

  const StoreFiles& files_;
  const Geometry& geometry_;
  // Values, and entries, that are written together: powers of two.
  const uint64_t piece_values_;
  const uint64_t piece_keys_;
  uint64_t next_slot_ = 0;
  Region keys_;
  Region values_;
  std::vector<bool> has_value_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_COPIED_STORE_H_
