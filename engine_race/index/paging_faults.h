// Says when an index tries its extents again after a failure. That is when it writes after a write
// has failed, and when it pages a bucket that has lost its extents.
//
// After a failed write nothing is written for a while, and runs stay in memory. The pause doubles
// with each failure in a row, up to about a second. A bucket that is lost for the first time is
// paged again at once. After each further loss it rests: its runs stay in memory for a while, which
// doubles, too. A loss that comes long after the last rest counts as a first one.
//
// Thread safety: every call from any thread.
#ifndef ENGINE_RACE_INDEX_PAGING_FAULTS_H_
#define ENGINE_RACE_INDEX_PAGING_FAULTS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race {

class BucketIndex;

class PagingFaults {
 public:
  using Clock = std::chrono::steady_clock;
  // A bucket that has been lost this many times in a row may be paged at once.
  static constexpr uint32_t kFreeLosses = 1;

  // The pause after `failure_count` writes in a row that failed, and the rest of a bucket that was
  // lost that many times.
  static std::chrono::milliseconds PauseAfter(uint32_t failure_count);
  static std::chrono::milliseconds RestAfter(uint32_t loss_count);

  // The end of an attempt to write an extent.
  void NoteWrite(const Status& written) noexcept;
  // Whether the last write has failed. Relaxed: a hint.
  bool has_failed() const { return failure_count_.load(std::memory_order_relaxed) != 0; }
  // Whether nothing should be written now.
  bool is_pausing() const { return has_failed() && Clock::now().time_since_epoch() < NextWrite(); }
  // When is_pausing ends or has ended.
  Clock::time_point next_write() const { return Clock::time_point(NextWrite()); }
  // Whether to say that writes are refused: once until a write of an extent succeeds.
  bool MayTell() noexcept { return !has_told_.exchange(true, std::memory_order_relaxed); }
  // The last failure of a write that no call has returned before; Ok if there is none.
  Status TakeFailure();

  // A bucket is about to be dropped, because an extent of it cannot be read. Whether it is to rest
  // when it was built again. May throw std::bad_alloc.
  bool NoteLoss(BucketIndex* bucket);
  // The bucket was built again, and rests from now on. After NoteLoss.
  void BeginRest(BucketIndex* bucket) noexcept;
  // The buckets whose rests are over. Each is given once. May throw std::bad_alloc.
  std::vector<BucketIndex*> TakeRested();
  // When the next rest is over.
  std::optional<Clock::time_point> next_rested() const;

 private:
  struct Loss {
    uint32_t count = 0;
    bool is_resting = false;
    Clock::time_point rested;  // the end of the last rest, or the last loss
  };
  Clock::duration NextWrite() const {
    return Clock::duration(next_write_.load(std::memory_order_relaxed));
  }

  // Relaxed, these two: hints, which change under mutex_.
  std::atomic<uint32_t> failure_count_{0};
  std::atomic<Clock::rep> next_write_{0};
  // Relaxed: at worst the message comes once more.
  std::atomic<bool> has_told_{false};
  mutable std::mutex mutex_;
  Status failure_;                       // under mutex_
  std::map<BucketIndex*, Loss> losses_;  // under mutex_
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PAGING_FAULTS_H_
