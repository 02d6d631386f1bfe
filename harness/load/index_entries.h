// The key entries of a bucket, read from its log as a build of the index reads them.
//
// Not thread-safe.
#ifndef HARNESS_LOAD_INDEX_ENTRIES_H_
#define HARNESS_LOAD_INDEX_ENTRIES_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/format.h"

namespace harness {

// Replaces *entries by all entries of `bucket`: entry i is slot i.
engine_race::Status ReadEntries(engine_race::BucketLog* log, uint32_t bucket,
                                std::vector<engine_race::format::KeyEntry>* entries);

}  // namespace harness

#endif  // HARNESS_LOAD_INDEX_ENTRIES_H_
