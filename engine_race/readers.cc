#include "engine_race/readers.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/io/backend_probe.h"
#include "engine_race/log/planned_files.h"
#include "engine_race/store_stats.h"

namespace engine_race {
namespace {

// The restorer begins this long after the first read, unless a call waits for it. Its reads from
// the same device would hold up that read.
constexpr std::chrono::milliseconds kHeadStart{20};
// The frames that can always be used, whatever the budget leaves: lookups need blocks.
constexpr uint32_t kLeastFrames = 64;
// A large file has a map of several blocks, one for each part of the file. Without the root of the
// index it is not known which part the key needs. So many parts of each file of the index are read.
constexpr uint64_t kMapParts = 8;

// `values` is Set::values, perhaps `blocks`.
void AddFrames(l1::FrameCache* blocks, l1::FrameCache* values, StoreStats* stats) {
  const l1::EpochManager::Counts counts = blocks->epochs().TakeCounts();
  stats->frame_memory_bytes = blocks->memory_bytes();
  stats->frame_block_bytes =
      blocks->pool().used_count(l1::FrameKind::kBlock) * blocks->frame_bytes();
  stats->frame_hit_count = counts.value_hits;
  stats->frame_miss_count = counts.value_misses;
  stats->block_hit_count = counts.block_hits;
  stats->block_miss_count = counts.block_misses;
  if (values == nullptr) return;
  if (values != blocks) stats->frame_memory_bytes += values->memory_bytes();
  stats->frame_value_bytes =
      values->pool().used_count(l1::FrameKind::kValue) * values->frame_bytes();
  stats->frame_admission_count = values->admission_count(l1::FrameKind::kValue);
  stats->frame_eviction_count = values->pool().eviction_count(l1::FrameKind::kValue);
}

}  // namespace

Status Readers::Make(Set** set, Index::Opening opening, const uint64_t* first_key) {
  const std::lock_guard<std::mutex> lock(make_mutex_);
  if (set_ == nullptr) {
    auto made = std::make_unique<Set>();
    made->options = options_;
    if (first_key != nullptr && log_.RecordCount() > 0) StartMapReader(*first_key);
    ENGINE_RACE_RETURN_IF_ERROR(ChooseBackend(&made->options));
    made->budget = std::make_unique<MemoryBudget>(made->options, log_);
    const MemoryBudget* const budget = made->budget.get();
    made->shares = std::make_unique<MemoryShares>([budget] { return budget->RestBytes(); });
    MakeFrameCaches(made.get());
    // Only the buckets of an index that waits for them are tried again while a writer is busy.
    if (log_.follows()) opening = Index::Opening::kMayWait;
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
        std::max(budget->RestBytes(), MemoryBudget::kLeastRangeBytes) + budget->window_bytes();
    made->ranges = std::make_unique<RangeReader>(log_, *made->index, made->options, scan_bytes,
                                                 RangeTuning(), made->shares->second(), frames);
    made->shares->SetSecondUser(made->ranges.get());
    made->iterators = std::make_unique<IteratorPool>(made->ranges.get());
    set_ = std::move(made);
    if (set_->index->needs_restore_rest()) StartRestorer(set_.get());
    // Release pairs with the acquires of ready_.
    ready_.store(set_.get(), std::memory_order_release);
  }
  *set = set_.get();
  return Status::Ok();
}

Status Readers::Refresh() {
  std::vector<uint32_t> reset;
  // Without make_mutex_, which the first read needs: this may wait for a writer.
  ENGINE_RACE_RETURN_IF_ERROR(log_.Refresh(&reset));
  if (!reset.empty()) {
    // An index that is being made may have cut these buckets before.
    const std::lock_guard<std::mutex> lock(make_mutex_);
  }
  // Acquire, of the release in Make.
  Set* const set = ready_.load(std::memory_order_acquire);
  if (set == nullptr) return Status::Ok();
  for (const uint32_t bucket : reset) ENGINE_RACE_RETURN_IF_ERROR(set->index->Bring(bucket));
  MakeRoomForIndex();
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
    JoinMapReader();
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

// File systems keep the maps of their files' blocks on the device. The first read of each file that
// is not in the page cache waits for its map. So a thread reads the maps that the read of the key
// needs, while the caller tries the back end and loads the root of the index. Without a thread the
// read is only slower.
void Readers::StartMapReader(uint64_t first_key) {
  // The thread of an earlier call that failed.
  JoinMapReader();
  const uint32_t bucket = log_.geometry().BucketOf(first_key);
  static_cast<void>(Guarded([&] {
    map_reader_ = StartThread("er-maps", [this, bucket] {
      log_.placement().EnterBuildThread();
      static_cast<void>(Guarded([&] {
        ReadMaps(bucket);
        return Status::Ok();
      }));
    });
    return Status::Ok();
  }));
}

void Readers::JoinMapReader() noexcept {
  if (map_reader_.joinable()) map_reader_.join();
}

// Reads the maps in the order in which they are needed.
void Readers::ReadMaps(uint32_t bucket) const {
  // A file system that is asked for data looks into the map.
  const auto read = [](int fd, uint64_t offset) {
    static_cast<void>(sys::MayHoldData(fd, offset, /*size=*/1));
  };
  const auto read_at = [&read](const SlotLocation& location) {
    if (location.found()) read(location.file->fd(), location.offset);
  };
  // Of the first row that has a place.
  uint64_t slot = 0;
  while (slot < log_.slots().SlotEnd(bucket) && !log_.slots().LocateKeys(bucket, slot).found()) {
    slot += log_.geometry().row_records();
  }
  // Restoring the bucket takes its last entry, which is staged as a rule.
  log_.reader().PrefetchStagedKeys(bucket, 1);
  read_at(log_.slots().LocateKeys(bucket, slot));
  for (uint32_t number = 0; number < format::kIndexFileCount; ++number) {
    UniqueFd fd;
    uint64_t size_bytes = 0;
    const std::string name = NumberedName(format::kIndexFilePrefix, number);
    const Status opened =
        sys::OpenAt(log_.directory_fd(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0, &fd);
    if (!opened.ok() || !sys::FileSize(fd.get(), &size_bytes).ok()) continue;
    for (uint64_t part = 0; part < kMapParts; ++part) read(fd.get(), size_bytes / kMapParts * part);
  }
  read_at(log_.slots().LocateValues(bucket, slot));
}

// Without frames everything works, from the log.
void Readers::MakeFrameCaches(Set* set) const {
  const uint64_t least_bytes = l1::FrameCache::BytesFor(kLeastFrames);
  set->shares->Keep(least_bytes, MemoryBudget::kLeastRangeBytes);
  MemoryShare* share = set->shares->first();
  const uint32_t value_bytes = log_.geometry().value_bytes();
  if (value_bytes != l1::FrameCache::kBlockBytes && options_.hot_value_bytes != 0) {
    set->frame_shares = std::make_unique<MemoryShares>(share);
    set->frame_shares->Keep(0, least_bytes);
    share = set->frame_shares->second();
  }
  const Placement& placement = log_.placement().memory();
  Status made = l1::FrameCache::Create(share->LimitBytes(), share, &set->frame_cache, placement);
  if (set->frame_cache != nullptr && set->frame_shares != nullptr) {
    share = set->frame_shares->first();
    made = l1::FrameCache::Create(
        std::min(share->LimitBytes(), options_.hot_value_bytes), share, &set->value_cache,
        placement, ValueFrames::FrameBytesFor(value_bytes), &set->frame_cache->epochs());
  }
  if (!made.ok()) {
    Log(options_.log, LogLevel::kWarning, "nothing is kept in frames: " + made.ToString());
  }
  if (set->frame_cache != nullptr) ShareFrames(set);
}

// Keeps the memory of the descriptions of frames, and of the frames that lookups need.
void Readers::ShareFrames(Set* set) {
  const l1::FrameCache& blocks = *set->frame_cache;
  const uint64_t block_bytes = blocks.BytesInUse(std::min(blocks.frame_count(), kLeastFrames));
  const l1::FrameCache* const values = set->value_cache.get();
  const uint64_t value_bytes = values == nullptr ? 0 : values->BytesInUse(0);
  set->shares->Keep(value_bytes + block_bytes, MemoryBudget::kLeastRangeBytes);
  if (set->frame_shares == nullptr) {
    set->shares->SetFirstUser(set->frame_cache.get());
    return;
  }
  set->frame_shares->Keep(value_bytes, block_bytes);
  set->frame_shares->SetFirstUser(set->value_cache.get());
  set->frame_shares->SetSecondUser(set->frame_cache.get());
  set->shares->SetFirstUser(set->frame_shares.get());
}

void Readers::MakeValueFrames(Set* set) const {
  l1::FrameCache* const cache = set->values();
  if (cache == nullptr || options_.hot_value_bytes == 0) return;
  const Status made = ValueFrames::Create(set->index.get(), cache, log_.geometry().value_bytes(),
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
  if (l1::FrameCache* const blocks = made->frame_cache.get(); blocks != nullptr) {
    AddFrames(blocks, made->values(), stats);
    stats->frame_limit_bytes = made->shares->first()->LimitBytes();
  }
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
