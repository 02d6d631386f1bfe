#include "engine_race/readers.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/store_stats.h"

namespace engine_race {
namespace {

// The restorer begins this long after the first read, unless a call waits for it. Its reads from
// the same device would hold up that read.
constexpr std::chrono::milliseconds kHeadStart{20};
// The frames that can always be used, whatever the budget leaves: lookups need blocks.
constexpr uint32_t kLeastFrames = 64;

void AddFrames(l1::FrameCache* frames, StoreStats* stats) {
  const l1::EpochManager::Counts counts = frames->epochs().TakeCounts();
  const l1::FramePool& pool = frames->pool();
  constexpr uint64_t kFrameBytes = l1::FrameCache::kFrameBytes;
  stats->frame_memory_bytes = frames->memory_bytes();
  stats->frame_limit_bytes = frames->limit_bytes();
  stats->frame_value_bytes = pool.used_count(l1::FrameKind::kValue) * kFrameBytes;
  stats->frame_block_bytes = pool.used_count(l1::FrameKind::kBlock) * kFrameBytes;
  stats->frame_hit_count = counts.value_hits;
  stats->frame_miss_count = counts.value_misses;
  stats->frame_admission_count = frames->admission_count(l1::FrameKind::kValue);
  stats->frame_eviction_count = pool.eviction_count(l1::FrameKind::kValue);
  stats->block_hit_count = counts.block_hits;
  stats->block_miss_count = counts.block_misses;
}

}  // namespace

Status Readers::Make(Set** set, Index::Opening opening) {
  const std::lock_guard<std::mutex> lock(make_mutex_);
  if (set_ == nullptr) {
    auto made = std::make_unique<Set>();
    made->options = options_;
    ENGINE_RACE_RETURN_IF_ERROR(ChooseBackend(&made->options));
    made->budget = std::make_unique<MemoryBudget>(made->options, log_);
    const MemoryBudget* const budget = made->budget.get();
    made->shares = std::make_unique<MemoryShares>([budget] { return budget->RestBytes(); });
    MakeFrameCache(made.get());
    ENGINE_RACE_RETURN_IF_ERROR(Index::Build(
        &log_, made->options, &made->index, made->frame_cache.get(),
        [budget] { return budget->IndexLimitBytes(); }, opening, [this] { return ReadCount(); }));
    made->budget->SetIndex(made->options, *made->index);
    made->shares->Settle();
    MakeValueFrames(made.get());
    ValueFrames* const frames = made->frames.get();
    made->points =
        std::make_unique<PointReader>(log_, *made->index, frames, options_.verify_checksums);
    made->pool =
        std::make_unique<ReadPool>(*made->points, made->options, ValueFileDescriptors(), stats_);
    const uint64_t scan_bytes =
        std::max(budget->RestBytes(), MemoryShares::kLeastRangeBytes) + budget->window_bytes();
    made->ranges = std::make_unique<RangeReader>(log_, *made->index, made->options, scan_bytes,
                                                 RangeTuning(), made->shares->ranges(), frames);
    made->shares->SetRangeUser(made->ranges.get());
    made->iterators = std::make_unique<IteratorPool>(made->ranges.get());
    set_ = std::move(made);
    if (set_->index->needs_restore_rest()) StartRestorer(set_.get());
    // Release pairs with the acquires in Ensure, EnsureForRead, MakeRoomForIndex and AddTo.
    ready_.store(set_.get(), std::memory_order_release);
  }
  *set = set_.get();
  return Status::Ok();
}

// Each key that was read, and each range that has ended. Ranges under way and iterators do not
// count.
uint64_t Readers::ReadCount() const {
  if (stats_ == nullptr) return 0;
  uint64_t count = 0;
  for (const OpCounter counter :
       {OpCounter::kReadsFound, OpCounter::kReadsNotFound, OpCounter::kMultiReadKeysFound,
        OpCounter::kMultiReadKeysNotFound, OpCounter::kAsyncReadsFound,
        OpCounter::kAsyncReadsNotFound, OpCounter::kRanges}) {
    count += stats_->counters.Sum(counter);
  }
  return count;
}

// Called before ready_ is published. Where no thread can be started, the caller reads the buckets.
void Readers::StartRestorer(Set* set) {
  const auto restore = [this, set] {
    set->index->RestoreRest();
    set->shares->Settle();
  };
  const std::lock_guard<std::mutex> lock(restorer_mutex_);
  // Relaxed: the release of ready_ in Make comes later.
  has_restorer_.store(true, std::memory_order_relaxed);
  try {
    restorer_ = StartThread("er-restore", [this, restore] {
      log_.placement().EnterBuildThread();
      {
        std::unique_lock hurry(hurry_mutex_);
        hurry_.wait_for(hurry, kHeadStart, [this] { return is_hurried_; });
      }
      restore();
    });
  } catch (const std::exception&) {
    restore();
  }
}

void Readers::JoinRestorer() noexcept {
  // Acquire pairs with the release below: all that the thread did comes before.
  if (!has_restorer_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard hurry(hurry_mutex_);
    is_hurried_ = true;
  }
  hurry_.notify_one();
  const std::lock_guard<std::mutex> lock(restorer_mutex_);
  if (restorer_.joinable()) restorer_.join();
  has_restorer_.store(false, std::memory_order_release);
}

// The back end of all readers: the requested one, or where that does not work on every path the
// best one that does.
Status Readers::ChooseBackend(Options* reading) const {
  return log_.VisitProbeFiles([reading](const io::File& file) {
    io::ReadBackend chosen;
    ENGINE_RACE_RETURN_IF_ERROR(io::ProbeReadBackend(*reading, file, &chosen));
    reading->io_backend = chosen.backend;
    reading->io_uring_iopoll = chosen.iopoll;
    reading->io_uring_sqpoll = chosen.sqpoll;
    return Status::Ok();
  });
}

// Without frames everything works, from the log.
void Readers::MakeFrameCache(Set* set) const {
  set->shares->KeepForFrames(l1::FrameCache::BytesFor(kLeastFrames));
  MemoryShare* const share = set->shares->frames();
  const Status made = l1::FrameCache::Create(share->LimitBytes(), share, &set->frame_cache,
                                             log_.placement().memory());
  if (!made.ok()) {
    Log(options_.log, LogLevel::kWarning, "nothing is kept in frames: " + made.ToString());
  } else if (set->frame_cache != nullptr) {
    const l1::FrameCache& frames = *set->frame_cache;
    const uint32_t least = std::min(frames.frame_count(), kLeastFrames);
    set->shares->KeepForFrames(frames.BytesInUse(least));
    set->shares->SetFrameUser(set->frame_cache.get());
  }
}

void Readers::MakeValueFrames(Set* set) const {
  if (set->frame_cache == nullptr) return;
  const Status made = ValueFrames::Create(set->index.get(), set->frame_cache.get(),
                                          options_.hot_value_bytes, &set->frames);
  if (!made.ok()) {
    Log(options_.log, LogLevel::kWarning, "no value is kept in memory: " + made.ToString());
  }
}

std::vector<int> Readers::ValueFileDescriptors() const {
  std::vector<int> descriptors;
  for (uint32_t i = 0; i < log_.slots().file_count(); ++i) {
    if (log_.slots().is_open(i)) descriptors.push_back(log_.slots().value_file(i).fd());
  }
  return descriptors;
}

void Readers::Finish() {
  if (set_ == nullptr) return;
  JoinRestorer();
  set_->pool->Close();
  ReportUnsaved(Guarded([&] { return set_->index->Close(options_.index_close_bytes); }));
}

// Nothing depends on the index on disk.
void Readers::ReportUnsaved(const Status& saved) const noexcept {
  if (saved.ok()) return;
  (void)Guarded([&] {
    Log(options_.log, LogLevel::kWarning, "the index was not written: " + saved.ToString());
    return Status::Ok();
  });
}

void Readers::SaveIndexAfterSync() noexcept {
  // Acquire pairs with the release in Make.
  const Set* const made = ready_.load(std::memory_order_acquire);
  if (made == nullptr || options_.index_sync_bytes == 0) return;
  ReportUnsaved(Guarded([&] { return made->index->SaveIfCheap(options_.index_sync_bytes); }));
}

void Readers::AddTo(StoreStats* stats) const {
  // Acquire pairs with the release in Make.
  const Set* const made = ready_.load(std::memory_order_acquire);
  if (made == nullptr) return;
  // Together, so that what one user has given to another is not counted twice.
  const std::unique_lock<std::mutex> held = made->shares->HoldBookings();
  stats->index_memory_bytes = made->index->memory_bytes();
  stats->index_written_bytes = made->index->written_bytes();
  stats->index_disk_bytes = made->index->disk_bytes();
  stats->range_memory_bytes = made->ranges->memory_bytes();
  stats->range_record_count = made->ranges->visited_count();
  if (made->frame_cache != nullptr) AddFrames(made->frame_cache.get(), stats);
  stats->task_memory_bytes = made->pool->memory_bytes();
  stats->pending_async_read_count = made->pool->bound().pending_count();
  stats->most_pending_async_read_count = made->pool->bound().most_pending_count();
  stats->iterator_memory_bytes = made->iterators->memory_bytes();
  const ViewRegistry::Census views = made->index->views().TakeCensus();
  stats->view_count = views.count;
  stats->view_pinned_bytes = made->index->pinned_bytes();
  stats->oldest_view_age_ms = views.oldest_age_ms;
  stats->io_backend = io::BackendName(log_.failed_backends()->InPlaceOf(made->options.io_backend));
}

}  // namespace engine_race
