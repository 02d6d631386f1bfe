// The right to move the runs of one bucket, for as long as the object lives. See
// BucketIndex::Claim.
#ifndef ENGINE_RACE_INDEX_BUCKET_CLAIM_H_
#define ENGINE_RACE_INDEX_BUCKET_CLAIM_H_

#include <cstdint>
#include <utility>

#include "engine_race/index/bucket_index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

class BucketClaim {
 public:
  // Both outlive it. `index` is that of the bucket. kAny: without runs, too.
  enum class Of { kRuns, kAny };
  BucketClaim(const BucketLog& log, uint32_t bucket, BucketIndex* index, Of what = Of::kRuns)
      : log_(log), bucket_(bucket), index_(*index) {
    log_.reader().WithBucketLocked(
        bucket_, [this, what] { held_ = what == Of::kAny ? index_.ClaimAny() : index_.Claim(); });
  }
  BucketClaim(const BucketClaim&) = delete;
  BucketClaim& operator=(const BucketClaim&) = delete;
  ~BucketClaim() { Release(); }

  // False if the bucket cannot be claimed now.
  bool held() const { return held_; }
  void Release() noexcept {
    if (!std::exchange(held_, false)) return;
    log_.reader().WithBucketLocked(bucket_, [this] { index_.Release(); });
  }

 private:
  const BucketLog& log_;
  const uint32_t bucket_;
  BucketIndex& index_;
  bool held_ = false;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BUCKET_CLAIM_H_
