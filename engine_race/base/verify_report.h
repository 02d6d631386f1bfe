// The results of verifying a store.
#ifndef ENGINE_RACE_BASE_VERIFY_REPORT_H_
#define ENGINE_RACE_BASE_VERIFY_REPORT_H_

#include <cstdint>
#include <functional>
#include <string>

namespace engine_race {

// A record, or a bucket's counts, that failed its check.
struct BadRecord {
  std::string file;  // where the bytes lie
  uint32_t bucket = 0;
  // kWholeBucket when all of the bucket is unreadable.
  uint64_t slot = 0;
  std::string what;

  static constexpr uint64_t kWholeBucket = ~uint64_t{0};
};

struct VerifyReport {
  uint64_t record_count = 0;  // read, overwritten records and tombstones included
  uint64_t bad_count = 0;
  // Records that the next opening will cut off: unsynced ones that a power loss has taken.
  uint64_t lost_tail_count = 0;
  // Of the index on disk: records that were compared with the key logs, and buckets whose extents
  // cannot be used. The next opening builds those from the key logs.
  uint64_t index_record_count = 0;
  uint64_t index_unusable_bucket_count = 0;
};

using BadRecordFn = std::function<void(const BadRecord&)>;

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_VERIFY_REPORT_H_
