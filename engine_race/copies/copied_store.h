// The content of a new store that is copied from another: its shape, its logs and its counts.
//
// All records of a copy lie in its logs and count as synced. Nothing is staged, and there is no
// journal. Its counts name no page cache, so its first opening trusts only the synced watermarks.
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
#include "engine_race/log/entry_codec.h"
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
  // `value` is null for a tombstone. kFull when the bucket has no room for the record.
  Status Add(uint32_t bucket, const KeyRecord& record, const char* value);
  // Writes the last records of a bucket of `record_count` records.
  Status Finish(uint32_t bucket, uint64_t record_count);

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

// Writes the counts of all buckets. All records are in the logs.
Status WriteCopiedCounts(const StoreFiles& files, const std::vector<uint64_t>& record_counts);

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_COPIED_STORE_H_
