// Whether records are where the counts say that they are.
//
// The counts promise for each record that its key entry and its value lie in a log or in a staging
// place. The checks here read exactly there and accept no other copy. An error is one of reading.
//
// One thread. Changes nothing.
// Owner of its buffers.
#ifndef ENGINE_RACE_LOG_RECORD_CHECK_H_
#define ENGINE_RACE_LOG_RECORD_CHECK_H_

#include <cstdint>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/log/bucket.h"
#include "engine_race/log/bucket_state.h"
#include "engine_race/log/staging.h"
#include "engine_race/log/store_files.h"

namespace engine_race {

class RecordCheck {
 public:
  // Of one bucket. Keeps references to the files and to staging.
  RecordCheck(const StoreFiles& files, const Staging& staging, uint32_t bucket,
              const BucketState& state)
      : files_(files), staging_(staging), bucket_(bucket), state_(state) {}

  Status Init();

  // *good: each of the records [begin, end) verifies where readers look for it. That is in the logs
  // if it is below the logged or the synced watermark, else in staging.
  Status ReadersFind(uint64_t begin, uint64_t end, bool* good);

  // *good: everything staged verifies, so that it may be written to the logs.
  Status StagingVerifies(bool* good);

 private:
  Status Check(uint64_t begin, uint64_t end, uint64_t first_value, bool* good);
  bool HasPlaces(uint64_t sequence) const;
  Status LoadEntry(uint64_t sequence);
  Status LoadValue(uint64_t sequence);

  const StoreFiles& files_;
  const Staging& staging_;
  const uint32_t bucket_;
  const BucketState state_;
  Region keys_;   // one key page, in the log or in staging
  Region value_;  // one value
  uint64_t loaded_page_ = 0;
  bool loaded_ = false;
  bool loaded_from_log_ = false;
};

// *verified: everything that this opening has found staged of the bucket verifies. For a bucket
// that has taken no record in this opening; under its lock.
Status VerifyStaging(const StoreFiles& files, const Staging& staging, uint32_t bucket_number,
                     const Bucket& bucket, bool* verified);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_RECORD_CHECK_H_
