// The buckets that an index was built without, because their key logs could not be read, and when
// each of them is tried again.
//
// The log callback hears of each at the build. The first call that asks for a bucket gets the
// build's error, the next one tries the bucket again, for the fault may have passed. One thread
// at a time tries a bucket; the calls that come meanwhile wait and share the result. After a few
// attempts in a row have failed there is a pause before the next one, twice as long each time up to
// about a second, in which calls answer the last failure: a device that takes long to fail would
// otherwise hold up a caller for every key. No other bucket is read again for it.
//
// Records appended to a bucket before it was read bear no epochs. If there are any, the bucket is
// hidden from the views that were taken before it was read: see HideFromOlder.
//
// Thread safety: every call but Add, which comes before the others.
#ifndef ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_
#define ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "engine_race/base/status.h"

namespace engine_race {

class UnreadBuckets {
 public:
  // The bucket held `record_count` records when it was left out. May throw std::bad_alloc.
  void Add(uint32_t bucket, uint64_t record_count, const Status& failure);

  // Ok once the bucket has been read, by `read(record_count)` or before. Else the failure of the
  // last attempt, to begin with the build's.
  Status Load(uint32_t bucket, const std::function<Status(uint64_t record_count)>& read);

  // Within `read`, before the bucket is admitted: views of epochs below `epoch` do not see it.
  void HideFromOlder(uint32_t bucket, uint64_t epoch);
  // For a lookup that has found the bucket admitted.
  bool IsHidden(uint32_t bucket, uint64_t epoch) const {
    return !entries_.empty() && IsAmongHidden(bucket, epoch);
  }

  // How long after so many failed attempts in a row the next one may begin.
  static std::chrono::milliseconds PauseAfter(uint32_t failure_count);

 private:
  struct Entry {
    std::mutex mutex;
    // Changed under the mutex; a caller reads it without, to know attempts that came after it.
    std::atomic<uint32_t> attempt_count{0};
    bool is_told = false;
    bool is_read = false;
    uint64_t record_count = 0;
    Status failure;
    std::chrono::steady_clock::time_point next_attempt;
    // Relaxed: the bucket's lock, taken by Admit, orders it before every lookup that needs it.
    std::atomic<uint64_t> first_epoch{0};
  };
  bool IsAmongHidden(uint32_t bucket, uint64_t epoch) const;

  std::map<uint32_t, Entry> entries_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_
