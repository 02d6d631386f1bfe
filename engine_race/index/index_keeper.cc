#include "engine_race/index/index_keeper.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/index/bucket_claim.h"
#include "engine_race/index/index_restore.h"

namespace engine_race {
namespace {

// Runs that are made flat take their memory in slabs of this size.
constexpr size_t kSlabBytes = size_t{4} << 20;
// The sizes of deltas that are merged early, from the largest to the smallest.
constexpr uint32_t kLargeDeltaRecords = 4096;
constexpr uint32_t kSmallDeltaRecords = 64;
// A root is written when enough extents wait to be used again or are named by none: this many, and
// this part of all extents.
constexpr uint64_t kMinWaitingExtents = 8;
constexpr uint64_t kWaitingFraction = 4;
// A bucket whose extents would have fewer bytes is not written: its key log is read as fast.
constexpr uint64_t kMinSavedBytes = 8 * format::kIndexBlockBytes;
// Sync saves the index when values were written since it did last that take 20 times its bytes.
constexpr uint64_t kCheapFactor = 20;
// A store with fewer reads than this since IsIdle last looked is idle, if nothing is written.
constexpr uint64_t kIdleReads = 256;

// While runs that readers may be looking at keep more memory, no further ones are paged out.
constexpr size_t kMostKeptBytes = size_t{16} << 20;

// The keeper waits at least this long before it tries failed work again.
constexpr std::chrono::milliseconds kShortestWait{10};

}  // namespace

IndexKeeper::IndexKeeper(BucketLog* log, const Options& options, std::span<BucketIndex> buckets,
                         BucketShared* shared, RootWriter* roots, LoseFn lose, ReadsFn reads)
    : log_(*log),
      options_(options),
      buckets_(buckets),
      shared_(*shared),
      paging_(*shared->paging()),
      roots_(*roots),
      lose_(std::move(lose)),
      reads_(std::move(reads)),
      slabs_(kSlabBytes, log->placement().memory()) {
  saved_count_.store(log->RecordCount(), std::memory_order_relaxed);
  paging_.set_wake([this] { Wake(); });
}

void IndexKeeper::Wake() noexcept {
  const std::lock_guard lock(mutex_);
  is_asked_ = true;
  if (is_stopping_) return;
  if (!thread_.joinable()) {
    // A thread that is refused is asked for again by the next call.
    (void)Guarded([this] {
      try {
        thread_ = engine_race::StartThread("er-keeper", [this] { Run(); });
      } catch (const std::system_error&) {
      }
      return Status::Ok();
    });
  }
  wake_.notify_one();
}

void IndexKeeper::Stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void IndexKeeper::Run() noexcept {
  log_.placement().EnterDeviceThread();
  while (true) {
    bool is_asked = false;
    {
      std::unique_lock lock(mutex_);
      const bool has_next_try = AwaitWork(&lock);
      if (is_stopping_) return;
      is_asked = std::exchange(is_asked_, false) || has_next_try;
    }
    const Status status = Guarded([&] {
      Step();
      if (!is_asked && IsIdle()) SaveWhenIdle();
      return Status::Ok();
    });
    Report(status);
    paging_.limbo().FreeSafe();
  }
}

// Waits until there may be work. True: work is to be tried again, so the end of the wait does not
// mean that the store was idle.
bool IndexKeeper::AwaitWork(std::unique_lock<std::mutex>* lock) {
  const auto is_needed = [this] { return is_asked_ || is_stopping_; };
  const auto next_try = paging_.NextTry();
  const std::chrono::milliseconds idle(options_.index_idle_ms);
  if (!next_try) {
    if (idle.count() == 0) {
      wake_.wait(*lock, is_needed);
    } else {
      wake_.wait_for(*lock, idle, is_needed);
    }
    return false;
  }
  const auto now = PagingFaults::Clock::now();
  // Not at once: what cannot be done now has been tried just before.
  const auto next = std::max(*next_try, now + kShortestWait);
  const bool is_idle_first = idle.count() != 0 && now + idle < next;
  wake_.wait_until(*lock, is_idle_first ? now + idle : next, is_needed);
  return !is_idle_first;
}

bool IndexKeeper::IsStopping() {
  const std::lock_guard lock(mutex_);
  return is_stopping_;
}

bool IndexKeeper::EndsStep() {
  shared_.Sweep([this] { return IsStopping(); });
  return IsStopping();
}

// A few writes a second are not idle: what is merged for them would be written again each time.
bool IndexKeeper::IsIdle() {
  const bool is_idle = !IsBusy();
  seen_read_count_ = reads_();
  seen_record_count_ = log_.RecordCount();
  return is_idle;
}

bool IndexKeeper::IsBusy() const {
  return reads_() - seen_read_count_ >= kIdleReads || log_.RecordCount() != seen_record_count_;
}

void IndexKeeper::Report(const Status& status) {
  if (status.ok()) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_reported_, true)) return;
  }
  // Without memory for the message nothing is said.
  (void)Guarded([&] {
    Log(options_.log, LogLevel::kWarning,
        "work on the index on disk failed and will be tried again: " + status.ToString());
    return Status::Ok();
  });
}

void IndexKeeper::Step() {
  if (EndsStep()) return;
  for (const Paging::Request& request : paging_.TakeRequests()) {
    if (EndsStep()) return;
    Serve(request);
  }
  for (BucketIndex* const rested : paging_.faults().TakeRested()) EndRest(rested);
  if (paging_.HasRunsToPage()) PageAll();
  if (paging_.HasLargeDeltas()) MergeLargeDeltas();
  Report(paging_.faults().TakeFailure());
  const uint64_t used = paging_.store().used_bytes() / format::kIndexExtentBytes;
  const auto changed_count = [this] {
    return std::max(paging_.waiting_count(), paging_.unnamed_count());
  };
  // What a root did not help with waits for more to come.
  const uint64_t enough = std::max(kMinWaitingExtents, used / kWaitingFraction);
  if (changed_count() > enough + left_count_) {
    const Status committed = roots_.Commit(/*only_extents=*/true);
    if (committed.ok()) left_count_ = changed_count();
    Report(committed);
  }
  left_count_ = std::min(left_count_, changed_count());
  paging_.LowerMerged();
}

template <typename WorkFn>
bool IndexKeeper::WithClaimed(uint32_t bucket, const WorkFn& work, Status* status) {
  BucketIndex& index = buckets_[bucket];
  {
    const BucketClaim claim(log_, bucket, &index);
    if (!claim.held()) return false;
    *status = Guarded([&] { return work(index); });
  }
  if (status->code() == Code::kCorruption || status->code() == Code::kIOError) {
    // A failed write says nothing about the bucket. After a failed read its extents are of no use.
    if (index.is_extent_lost()) lose_(bucket, *status);
  }
  return true;
}

void IndexKeeper::Serve(const Paging::Request& request) {
  const uint32_t bucket = NumberOf(request.bucket);
  if (request.work == Paging::Work::kMerge) {
    Merge(bucket, ~uint32_t{0});
    return;
  }
  if (!paging_.MayFlatten()) return;
  Status status;
  WithClaimed(
      bucket, [&](BucketIndex& index) { return index.Flatten(&slabs_); }, &status);
  paging_.FitFrames();
  Report(status);
}

void IndexKeeper::EndRest(BucketIndex* index) {
  bool has_ended = false;
  log_.reader().WithBucketLocked(NumberOf(index), [&] { has_ended = index->EndRest(); });
  if (!has_ended) paging_.faults().BeginRest(index);
}

bool IndexKeeper::Merge(uint32_t bucket, uint32_t min_records) {
  if (image_.data() == nullptr && !l1::ExtentImage::Create(&image_).ok()) return false;
  const auto locked = [&](FunctionRef<void()> work) {
    log_.reader().WithBucketLocked(bucket, work);
  };
  Status status;
  const auto merge = [&](BucketIndex& index) {
    ENGINE_RACE_RETURN_IF_ERROR(index.MergeFlat(/*only_crossed=*/true, locked));
    return paging_.may_write() ? index.MergePaged(min_records, &image_, locked) : Status::Ok();
  };
  const bool is_claimed = WithClaimed(bucket, merge, &status);
  Report(status);
  return is_claimed && status.ok();
}

// Runs that were paged out take their memory until the readers inside have left.
void IndexKeeper::AwaitReaders() {
  while (paging_.limbo().bytes() > kMostKeptBytes && !IsStopping()) {
    paging_.limbo().FreeSafe();
    if (paging_.limbo().bytes() > kMostKeptBytes) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void IndexKeeper::PageAll() {
  if (image_.data() == nullptr && !l1::ExtentImage::Create(&image_).ok()) return;
  for (uint32_t b = 0; b < buckets_.size() && paging_.MustPage(); ++b) {
    const auto page = [&](BucketIndex& index) {
      return index.may_be_paged() ? index.WriteRuns(&image_, /*pages_out=*/true) : Status::Ok();
    };
    Status status;
    WithClaimed(b, page, &status);
    if (!status.ok()) return Report(status);
    AwaitReaders();
    if (EndsStep()) return;
  }
  Report(roots_.Commit(/*only_extents=*/true));
}

uint64_t IndexKeeper::UnwrittenBytesOf(uint32_t bucket) const {
  const uint64_t bytes = buckets_[bucket].UnwrittenBytes();
  return bytes < kMinSavedBytes ? 0 : bytes;
}

uint64_t IndexKeeper::UnwrittenBytes() const {
  uint64_t bytes = 0;
  for (uint32_t b = 0; b < buckets_.size(); ++b) bytes += UnwrittenBytesOf(b);
  return bytes;
}

void IndexKeeper::MergeLongTails(uint64_t max_bytes, FunctionRef<bool()> must_stop) {
  const uint64_t bytes_before = paging_.store().written_bytes();
  l1::ExtentImage image;
  for (uint32_t b = 0; b < buckets_.size() && !must_stop(); ++b) {
    const auto locked = [&](FunctionRef<void()> work) { log_.reader().WithBucketLocked(b, work); };
    const auto merge = [&](BucketIndex& index) {
      BucketMoment since;
      locked([&] { since = index.DeltasSince(log_.LockedMomentOf(b)); });
      const bool is_long = log_.reader().CountSince(b, since) > MaxTail(log_, b, since);
      const uint64_t written = paging_.store().written_bytes() - bytes_before;
      if (!is_long || written + index.MergedBytes() > max_bytes) return Status::Ok();
      ENGINE_RACE_RETURN_IF_ERROR(index.MergeFlat(/*only_crossed=*/false, locked));
      if (image.data() == nullptr) ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(&image));
      return index.MergePaged(1, &image, locked);
    };
    Status status;
    WithClaimed(b, merge, &status);
    Report(status);
  }
}

Status IndexKeeper::WriteRuns(uint64_t max_bytes, FunctionRef<bool()> must_stop) {
  l1::ExtentImage image;
  uint64_t bytes = 0;
  for (uint32_t b = 0; b < buckets_.size() && !must_stop(); ++b) {
    const uint64_t unwritten = UnwrittenBytesOf(b);
    if (unwritten == 0 || bytes + unwritten > max_bytes) continue;
    if (image.data() == nullptr) ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(&image));
    Status status;
    WithClaimed(
        b, [&](BucketIndex& index) { return index.WriteRuns(&image, /*pages_out=*/false); },
        &status);
    ENGINE_RACE_RETURN_IF_ERROR(status);
    bytes += unwritten;
  }
  return Status::Ok();
}

Status IndexKeeper::Save(uint64_t max_bytes, bool only_extents) {
  const auto never = [] { return false; };
  const uint64_t bytes_before = paging_.store().written_bytes();
  MergeLongTails(max_bytes, never);
  const uint64_t merged_bytes = paging_.store().written_bytes() - bytes_before;
  const Status written = WriteRuns(max_bytes - std::min(merged_bytes, max_bytes), never);
  // A root names what was written before a failure.
  const Status committed = roots_.Commit(only_extents);
  return written.ok() ? committed : written;
}

Status IndexKeeper::SaveIfCheap(uint64_t max_bytes) {
  const uint64_t unwritten = UnwrittenBytes();
  const bool is_named = unwritten == 0 && paging_.unnamed_count() == 0;
  if (is_named || unwritten > max_bytes) return Status::Ok();
  const uint64_t record_count = log_.RecordCount();
  // Relaxed: two threads that save at once do no harm.
  const uint64_t saved_count = saved_count_.load(std::memory_order_relaxed);
  const uint64_t extent_count = paging_.store().used_bytes() / format::kIndexExtentBytes;
  const uint64_t root_bytes =
      buckets_.size() * sizeof(format::IndexCoverage) + extent_count * sizeof(format::IndexExtent);
  const uint64_t value_bytes = (record_count - saved_count) * log_.geometry().value_bytes();
  if (value_bytes < kCheapFactor * (unwritten + root_bytes)) return Status::Ok();
  saved_count_.store(record_count, std::memory_order_relaxed);
  return Save(max_bytes, /*only_extents=*/true);
}

void IndexKeeper::SaveWhenIdle() {
  if (UnwrittenBytes() == 0 && paging_.unnamed_count() == 0) return;
  // What is left waits for the next idle time.
  const auto must_stop = [this] { return EndsStep() || IsBusy(); };
  MergeLongTails(~uint64_t{0}, must_stop);
  Report(WriteRuns(~uint64_t{0}, must_stop));
  // A root names what was written before a failure.
  if (!must_stop()) Report(roots_.Commit(/*only_extents=*/true));
}

// Deltas may be as large as a tenth of their runs. Where all of them together take more than the
// index may, smaller ones are merged as well.
void IndexKeeper::MergeLargeDeltas() {
  bool are_merged = true;
  for (uint32_t min_records = kLargeDeltaRecords; min_records >= kSmallDeltaRecords;
       min_records /= 2) {
    for (uint32_t b = 0; b < buckets_.size() && paging_.HasLargeDeltas(); ++b) {
      if (EndsStep()) return;
      // An empty bucket has nothing to merge, and cannot be claimed.
      are_merged &= Merge(b, min_records) || buckets_[b].MergedBytes() == 0;
    }
  }
  if (are_merged && paging_.HasLargeDeltas()) paging_.NoteMerged();
}

}  // namespace engine_race
