#include "engine_race/index/build.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/base/guarded.h"
#include "engine_race/base/parallel.h"
#include "engine_race/index/bucket_builder.h"
#include "engine_race/index/giant_build.h"

namespace engine_race {
namespace {

constexpr size_t kMaxReportedSlots = 16;
// Of a bucket that one thread builds: two buckets' entries with a quarter to spare, and those that
// are sorted.
constexpr uint64_t kBuildBytesPerRecord = 2 * format::kKeyEntryBytes * 5 / 4 + 18;
constexpr uint64_t kLeastGiantRecords = uint64_t{16} << 10;

// Builds the small buckets and collects the giants in a list.
class SmallBuckets {
 public:
  explicit SmallBuckets(BuildContext* context) : context_(context) {
    uint64_t record_count = 0;
    for (uint32_t b = 0; b < context->bucket_count(); ++b) {
      if (context->is_restored(b)) continue;
      record_count += context->log().SlotEnd(b);
      ++bucket_count_;
    }
    records_a_thread_ = record_count / context->thread_count();
  }

  Status Run() {
    if (bucket_count_ == 0) return Status::Ok();
    const uint32_t threads = std::min(context_->thread_count(), bucket_count_);
    return context_->RunThreads(threads, [this](uint32_t) { return Work(); });
  }
  const std::vector<uint32_t>& giants() const { return giants_; }

 private:
  Status Work() {
    BucketBuilder builder(context_, records_a_thread_);
    ENGINE_RACE_RETURN_IF_ERROR(builder.Init());
    while (true) {
      while (!builder.full() && !context_->failed()) {
        const uint32_t bucket = Take();
        if (bucket == context_->bucket_count()) break;
        ENGINE_RACE_RETURN_IF_ERROR(builder.Start(bucket));
      }
      if (builder.empty() || context_->failed()) return Status::Ok();
      uint32_t bucket = 0;
      Status failure;
      ENGINE_RACE_RETURN_IF_ERROR(builder.BuildOldest(&bucket, &failure));
      if (!failure.ok()) context_->LeaveOut(bucket, failure);
    }
  }

  // The next bucket for one thread; bucket_count() when none is left.
  uint32_t Take() {
    while (true) {
      // Relaxed: each bucket must only be handed out once.
      const uint32_t bucket = next_.fetch_add(1, std::memory_order_relaxed);
      if (bucket >= context_->bucket_count()) return context_->bucket_count();
      if (context_->is_restored(bucket)) continue;
      if (context_->log().BucketDamaged(bucket)) {
        context_->bucket(bucket).MarkUnreadable();
      } else if (context_->IsGiant(bucket)) {
        const std::lock_guard lock(mutex_);
        giants_.push_back(bucket);
      } else {
        return bucket;
      }
    }
  }

  BuildContext* const context_;
  uint32_t bucket_count_ = 0;  // that are not restored
  uint64_t records_a_thread_ = 0;
  std::atomic<uint32_t> next_{0};
  std::mutex mutex_;
  std::vector<uint32_t> giants_;  // under mutex_ while threads run
};

Status BuildOrFail(BuildContext* context) {
  SmallBuckets small(context);
  ENGINE_RACE_RETURN_IF_ERROR(small.Run());
  for (const uint32_t bucket : small.giants()) {
    const Status built = BuildGiant(context, bucket);
    if (built.code() == Code::kIOError) {
      context->LeaveOut(bucket, built);
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(built);
    }
  }
  return Status::Ok();
}

}  // namespace

BuildLimits BuildLimits::For(const Options& options, uint32_t thread_count) {
  BuildLimits limits;
  limits.giant_memory_bytes = std::min(limits.giant_memory_bytes, options.memory_budget_bytes / 4);
  const uint64_t thread_bytes = limits.giant_memory_bytes / thread_count;
  limits.giant_records =
      std::clamp(thread_bytes / kBuildBytesPerRecord, kLeastGiantRecords, limits.giant_records);
  limits.window_bytes = std::min(limits.window_bytes, thread_bytes / 2);
  return limits;
}

uint32_t BuildThreadCount(const BucketLog& log, const Options& options, bool writes_extents) {
  if (options.build_thread_count != 0) return options.build_thread_count;
  const uint32_t count =
      numa::StorePlacement::LimitTo(log.placement().build_cpus(), AvailableCpuCount());
  return writes_extents ? std::min(2 * count, kMaxBuildThreadCount) : count;
}

Status BuildContext::Cut(uint32_t bucket, uint64_t first_sequence, BucketCut* cut) {
  buckets_[bucket].set_split_keys(limits_.split_keys);
  buckets_[bucket].Expect();
  return log_->reader().CutBucket(bucket, first_sequence, listener_, cut);
}

void BuildContext::PageFresh(std::span<const std::unique_ptr<Part>> parts, uint64_t other_bytes,
                             l1::ExtentImage* image) {
  if (paging_ == nullptr || cannot_page_.load(std::memory_order_relaxed)) return;
  const Status status = Guarded([&] { return paging_->PageFresh(parts, other_bytes, image); });
  // The index then takes more memory than it should.
  if (status.ok() || cannot_page_.exchange(true, std::memory_order_relaxed)) return;
  Log(options_.log, LogLevel::kWarning, "runs of the index stay in memory: " + status.ToString());
}

void BuildContext::Undo() {
  for (uint32_t b = 0; b < bucket_count(); ++b) Undo(b);
}

void BuildContext::Undo(uint32_t bucket) {
  log_->reader().SuspendListener(bucket);
  buckets_[bucket].Forget();
}

Status BuildContext::UnreadStatus(uint32_t bucket, const Status& why) {
  return why.Prefixed("bucket " + std::to_string(bucket) + " cannot be read: ");
}

void BuildContext::LeaveOut(uint32_t bucket, const Status& why) {
  Undo(bucket);
  buckets_[bucket].MarkUnread();
  const Status status = UnreadStatus(bucket, why);
  Log(options_.log, LogLevel::kError, status.ToString());
  const std::lock_guard lock(unread_mutex_);
  unread_->Add(bucket, log_->RecordCount(bucket), status);
}

Status BuildContext::RunThreads(uint32_t count,
                                const std::function<Status(uint32_t worker)>& work) {
  failed_.store(false, std::memory_order_relaxed);
  return RunParallel("er-build", count, [&](uint32_t worker) {
    // Worker 0 is the caller's own thread.
    if (worker > 0) log_->placement().EnterBuildThread();
    Status status = work(worker);
    if (!status.ok()) failed_.store(true, std::memory_order_relaxed);
    return status;
  });
}

void BuildContext::ReportDamage(uint32_t bucket, std::span<const uint32_t> slots,
                                uint64_t total) const {
  if (!options_.log) return;
  const std::string in_bucket = "bucket " + std::to_string(bucket);
  for (const uint32_t slot : slots.first(std::min(slots.size(), kMaxReportedSlots))) {
    options_.log(
        LogLevel::kError,
        "damaged key entry: " + log_->slots().NameOf(log_->slots().LocateKeys(bucket, slot)) +
            ", " + in_bucket + ", slot " + std::to_string(slot));
  }
  options_.log(LogLevel::kError, in_bucket + ": " + std::to_string(total) +
                                     " damaged key entries; a key of the bucket that may have "
                                     "been among them cannot be read");
}

Status BuildAllBuckets(BuildContext* context) {
  Status status;
  try {
    status = BuildOrFail(context);
  } catch (const std::bad_alloc&) {
    status = Status::OutOfMemory("index: no memory to build it");
  }
  if (!status.ok()) context->Undo();
  return status;
}

Status BuildBucket(BuildContext* context, uint32_t bucket, FunctionRef<Status()> build) {
  Status status;
  try {
    status = build();
    if (!status.ok()) status = BuildContext::UnreadStatus(bucket, status);
  } catch (const std::bad_alloc&) {
    status = Status::OutOfMemory("index: no memory to build a bucket");
  }
  if (!status.ok()) context->Undo(bucket);
  return status;
}

}  // namespace engine_race
