// Visits all that a view of the store shows, bucket by bucket on several threads.
//
// A thread takes a bucket and walks it in order of key, a batch of records at a time. The values of
// a batch are read in order of slot with large reads, and compared with the hashes of their key
// entries.
//
// Thread safety: one call runs threads of its own, beside any other call of the store. Sinks belong
// to the thread that made them. The caller pins the view throughout the call.
#ifndef ENGINE_RACE_COPIES_VIEW_WALK_H_
#define ENGINE_RACE_COPIES_VIEW_WALK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "engine_race/base/options.h"
#include "engine_race/base/progress.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

// Takes the records of one bucket after another. One thread.
class ViewSink {
 public:
  virtual ~ViewSink() = default;
  // Of records with sequence numbers from this one on the values are wanted.
  virtual uint64_t FirstWanted(uint32_t bucket) const = 0;
  // The next record of the bucket, in order of key. `value` is null where it is not wanted, and
  // valid during the call. `value_hash` is HashValue(value).
  virtual Status Take(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) = 0;
  // All records of the bucket have been taken.
  virtual Status Finish(uint32_t bucket) = 0;
};
using MakeViewSinkFn = std::function<Status(std::unique_ptr<ViewSink>* sink)>;

// Visits what a view of `version` shows. The values in memory take a sixteenth of the budget of
// `options`, 64 MiB at most. `on_progress` may be empty. kCorruption when a record is damaged or
// may be missing; else the first failure. A store whose writing has ended is kIOError: a record
// that the view shows may never be durable. *is_stale is set after a failure if a bucket of the
// index was built again and the view no longer shows it. A walk of a new view may then succeed.
Status WalkView(const BucketLog& log, const Index& index, const Options& options, uint64_t version,
                const ProgressFn& on_progress, const MakeViewSinkFn& make_sink, bool* is_stale);

// Calls copy(&is_stale) until it is not stale. A copy gives up after so many views: with a damaged
// index each walk may find another bucket to build again.
template <typename CopyFn>
Status WithFreshViews(const CopyFn& copy) {
  constexpr int kMaxViews = 8;
  for (int i = 1;; ++i) {
    bool is_stale = false;
    Status status = copy(&is_stale);
    if (!is_stale || i == kMaxViews) return status;
  }
}

}  // namespace engine_race

#endif  // ENGINE_RACE_COPIES_VIEW_WALK_H_
