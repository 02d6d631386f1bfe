// A batch whose records tell whether all of it is there, and stores for it.
#ifndef TEST_POWER_UNIFORM_BATCH_H_
#define TEST_POWER_UNIFORM_BATCH_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "engine_race/store.h"
#include "test/power/machine.h"

namespace engine_race::test {

inline constexpr uint32_t kBuckets = 4;

inline Options FourBuckets(SyncMode mode) {
  Options options = OneBucket();
  options.bucket_count = kBuckets;
  options.file_count = 2;
  options.sync_mode = mode;
  return options;
}

// Puts of one version under the first keys of all buckets.
inline WriteBatch Uniform(uint64_t per_bucket, uint64_t version) {
  WriteBatch batch;
  for (uint64_t n = 0; n < per_bucket; ++n) {
    for (uint64_t bucket = 0; bucket < kBuckets; ++bucket) {
      const uint64_t key = bucket << 62 | n;
      EXPECT_TRUE(batch.Put(KeyOf(key), ValueOf(key, version)).ok());
    }
  }
  return batch;
}

}  // namespace engine_race::test

#endif  // TEST_POWER_UNIFORM_BATCH_H_
