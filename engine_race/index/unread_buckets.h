// The buckets that an index has to do without, and when each of them is tried again. Either the
// build could not read their key logs, or an extent of theirs could not be read later. A bucket is
// also among them while it waits for its first attempt, behind the opening of the index.
//
// The build reports each bucket that it could not read to the log callback. The first call that
// needs such a bucket gets the error of the build. The next call tries to read it again, because
// the fault may have passed. The first call that needs a waiting bucket reads it. One thread at a
// time tries a bucket; calls that come meanwhile wait and share its result.
//
// After a few failures in a row there is a pause before the next attempt. It doubles up to about a
// second. During the pause calls answer the last failure. Otherwise a device that takes long to
// fail would hold up a caller for every key. An attempt reads no other bucket.
//
// Records that were appended to a bucket before it was read have no stamps. If there are any, the
// bucket is hidden from the views that were taken before it was read: see HideFromOlder. The first
// attempt of a waiting bucket hides nothing, because no view is older than it.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_
#define ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "engine_race/base/function_ref.h"
#include "engine_race/base/status.h"

namespace engine_race {

class UnreadBuckets {
 public:
  // In place of a count of records: the bucket is hidden from older views whatever it holds.
  static constexpr uint64_t kUnknownCount = ~uint64_t{0};
  // In place of a count of records: the bucket was never tried.
  static constexpr uint64_t kWaitingCount = kUnknownCount - 1;

  // Adds a bucket that held `record_count` records when it was left out. May throw std::bad_alloc.
  void Add(uint32_t bucket, uint64_t record_count, const Status& failure);

  // Adds a bucket that the index will read without having failed before. May throw std::bad_alloc.
  void AddWaiting(uint32_t bucket);

  // Adds a bucket that was in the index, or adds it again. drop() takes it out of the index; no
  // thread reads the bucket meanwhile. The next call reads it at once. Its records have no stamps
  // any more, so older views may not see it. May throw std::bad_alloc before it drops the bucket.
  // Without is_lost() when it looks, drops nothing.
  void AddLost(
      uint32_t bucket, const Status& failure, FunctionRef<void()> drop,
      FunctionRef<bool()> is_lost = [] { return true; });
  // Whether the last attempt to read the bucket has succeeded, or the index never did without it.
  bool WasRead(uint32_t bucket) const;

  // Ok if the bucket has been read, by `read(&record_count)` in this call or in an earlier one.
  // Otherwise the failure of the last attempt; the build's attempt counts as one. The count is that
  // of Add, kUnknownCount or kWaitingCount; the next attempt gets what `read` leaves there.
  Status Load(uint32_t bucket, FunctionRef<Status(uint64_t* record_count)> read);

  // Hides the bucket from views below `version`. They still see its published runs, which are as
  // old. Called within `read`, before the bucket is admitted, or of a bucket that is in the index.
  // May throw std::bad_alloc then.
  void HideFromOlder(uint32_t bucket, uint64_t version);
  // Whether a view of `version` may not see the bucket. For a lookup that has found the bucket
  // admitted.
  bool IsHidden(uint32_t bucket, uint64_t version) const {
    // Relaxed: the bucket's lock orders it.
    return has_hidden_.load(std::memory_order_relaxed) && IsAmongHidden(bucket, version);
  }
  // Whether any bucket is hidden from a view of `version`.
  bool HidesAny(uint64_t version) const;

  // The pause after `failure_count` failures in a row.
  static std::chrono::milliseconds PauseAfter(uint32_t failure_count);

 private:
  struct Entry {
    std::mutex mutex;
    // Changed under the mutex. A caller reads it before it waits for the mutex, to notice later
    // attempts.
    std::atomic<uint32_t> attempt_count{0};
    bool is_told = false;
    // Changed under the mutex.
    std::atomic<bool> is_read{false};
    uint64_t record_count = 0;
    Status failure;
    std::chrono::steady_clock::time_point next_attempt;
    // Relaxed: the bucket's lock, taken by Admit, orders it before every lookup that needs it.
    std::atomic<uint64_t> first_version{0};
  };
  bool IsAmongHidden(uint32_t bucket, uint64_t version) const;
  // Null when the bucket was never added. Entries stay where they are.
  Entry* Find(uint32_t bucket) const;
  // The entry of a bucket that is in the index, if it was never added.
  Entry* FindOrMake(uint32_t bucket);

  mutable std::shared_mutex entries_mutex_;
  mutable std::map<uint32_t, Entry> entries_;  // under entries_mutex_
  std::atomic<bool> has_hidden_{false};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_UNREAD_BUCKETS_H_
