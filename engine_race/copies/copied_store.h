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
#include <memory>
#include <utility>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/copies/verify.h"
#include "engine_race/copies/view_walk.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

// Options that make a store of this geometry. Where its values lie is for `options` to say.
Options WithGeometryOf(const Geometry& geometry, const Options& options);

// Writes records into the logs of a new store, a bucket after another, each in order of slot from 0
// on. Values are written by whole pieces of segments, 1 MiB or one value at once, and entries by
// whole pages. The slots of a view's records are in order of key.
class BucketFill final : public ViewSink, public RecordSink {
 public:
  // (*record_counts)[bucket] becomes the count of a bucket that is finished. Keeps references to
  // both.
  BucketFill(const StoreFiles& files, std::vector<uint64_t>* record_counts);
  Status Init();
  // Makes one, as that kind of sink.
  template <typename Sink>
  static Status Make(const StoreFiles& files, std::vector<uint64_t>* record_counts,
                     std::unique_ptr<Sink>* sink) {
    auto fill = std::make_unique<BucketFill>(files, record_counts);
    ENGINE_RACE_RETURN_IF_ERROR(fill->Init());
    *sink = std::move(fill);
    return Status::Ok();
  }

  // `value` is null for a tombstone. kFull when the bucket has no room for the record.
  Status Take(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) override;
  // Writes the last records of a bucket.
  Status Finish(uint32_t bucket) override;

  uint64_t FirstWanted(uint32_t /*bucket*/) const override { return 0; }
  Status Take(uint32_t bucket, const KeyRecord& record, const char* value) override {
    return Take(bucket, record.key, value, record.value_hash);
  }
  Status Finish(uint32_t bucket, const VerifiedBucket& /*verified*/) override {
    return Finish(bucket);
  }

 private:
  Status WriteKeys(uint32_t bucket, uint64_t end);
  Status WriteValues(uint32_t bucket, uint64_t end);

  const StoreFiles& files_;
  const Geometry& geometry_;
  std::vector<uint64_t>& record_counts_;
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
