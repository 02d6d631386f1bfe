// The part of a bucket that only a store which follows a writer has.
//
// Plain data, part of Bucket and guarded by its mutex.
#ifndef ENGINE_RACE_LOG_FOLLOWED_BUCKET_H_
#define ENGINE_RACE_LOG_FOLLOWED_BUCKET_H_

#include <cstdint>
#include <vector>

#include "engine_race/log/format.h"

namespace engine_race {

struct FollowedBucket {
  // Nothing of it was taken over: it has changed at each reading.
  bool is_missing = false;
  // How often the bucket was taken anew from what the writer has written. And how often when the
  // listener cut it last.
  uint64_t change_count = 0;
  uint64_t change_count_at_cut = 0;
  // The entries of the records that were not in the key log then: the writer gives places away.
  std::vector<format::KeyEntry> staged_keys;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_FOLLOWED_BUCKET_H_
