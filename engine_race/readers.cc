#include "engine_race/readers.h"

#include <algorithm>
#include <utility>

#include "engine_race/io/backend_probe.h"
#include "engine_race/store.h"

namespace engine_race {
namespace {

void AddFrames(const ValueFrames& frames, StoreStats* stats) {
  const ValueFrameStats own = frames.Stats();
  stats->frame_memory_bytes = own.memory_bytes;
  stats->frame_limit_bytes = own.limit_bytes;
  stats->frame_hit_count = own.hit_count;
  stats->frame_miss_count = own.miss_count;
  stats->frame_admission_count = own.admission_count;
  stats->frame_eviction_count = own.eviction_count;
}

}  // namespace

Status Readers::Make(Set** set) {
  const std::lock_guard<std::mutex> lock(make_mutex_);
  if (set_ == nullptr) {
    auto made = std::make_unique<Set>();
    made->options = options_;
    ENGINE_RACE_RETURN_IF_ERROR(ChooseBackend(&made->options));
    ENGINE_RACE_RETURN_IF_ERROR(Index::Build(&log_, made->options, &made->index));
    made->budget = std::make_unique<MemoryBudget>(made->options, log_, *made->index);
    const MemoryBudget* const budget = made->budget.get();
    made->shares = std::make_unique<MemoryShares>([budget] { return budget->RestBytes(); },
                                                  options_.hot_value_bytes);
    MakeFrames(made.get());
    ValueFrames* const frames = made->frames.get();
    made->points =
        std::make_unique<PointReader>(log_, *made->index, frames, options_.verify_checksums);
    made->pool = std::make_unique<ReadPool>(*made->points, made->options, ValueFileDescriptors());
    made->iterators = std::make_unique<IteratorPool>(log_, *made->index, frames, made->options,
                                                     made->budget->iterator_window_bytes());
    set_ = std::move(made);
    // Release pairs with the acquires in Ensure, MakeRoomForIndex and AddTo.
    ready_.store(set_.get(), std::memory_order_release);
  }
  *set = set_.get();
  return Status::Ok();
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
void Readers::MakeFrames(Set* set) const {
  MemoryShare* const share = set->shares->hot_values();
  const Status made = ValueFrames::Create(set->index.get(), share->LimitBytes(), share,
                                          &set->frames, log_.placement().memory());
  if (made.ok()) {
    set->shares->SetHotValueUser(set->frames.get());
  } else {
    Log(options_.log, LogLevel::kWarning, "no value is kept in memory: " + made.ToString());
  }
}

Status Readers::MakeRanges(RangeReader** ranges) {
  Set* set = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(Ensure(&set));
  const std::lock_guard<std::mutex> lock(make_mutex_);
  if (set->ranges == nullptr) {
    const MemoryBudget& budget = *set->budget;
    const uint64_t bytes =
        std::max(budget.RestBytes(), MemoryShares::kLeastRangeBytes) + budget.range_window_bytes();
    set->ranges = std::make_unique<RangeReader>(log_, *set->index, set->options, bytes,
                                                RangeTuning(), set->shares->ranges());
    set->shares->SetRangeUser(set->ranges.get());
    // Release pairs with the acquires in EnsureRanges and AddTo.
    ready_ranges_.store(set->ranges.get(), std::memory_order_release);
  }
  *ranges = set->ranges.get();
  return Status::Ok();
}

std::vector<int> Readers::ValueFileDescriptors() const {
  std::vector<int> descriptors;
  for (uint32_t i = 0; i < log_.values().file_count(); ++i) {
    descriptors.push_back(log_.values().file(i).fd());
  }
  return descriptors;
}

void Readers::FinishReads() {
  if (set_ != nullptr) set_->pool->Close();
}

void Readers::AddTo(StoreStats* stats) const {
  // Acquire pairs with the release in Make.
  const Set* const made = ready_.load(std::memory_order_acquire);
  if (made == nullptr) return;
  // Together, so that what one user has given to another is not counted twice.
  const std::unique_lock<std::mutex> held = made->shares->HoldBookings();
  stats->index_memory_bytes = made->index->memory_bytes();
  // Acquire pairs with the release in MakeRanges.
  if (const RangeReader* const ranges = ready_ranges_.load(std::memory_order_acquire)) {
    stats->range_memory_bytes = ranges->memory_bytes();
  }
  if (made->frames != nullptr) AddFrames(*made->frames, stats);
  stats->task_memory_bytes = made->pool->memory_bytes();
  stats->iterator_memory_bytes = made->iterators->memory_bytes();
  const ViewRegistry::Census views = made->index->views().TakeCensus();
  stats->view_count = views.count;
  stats->view_pinned_bytes = made->index->pinned_bytes();
  stats->oldest_view_age_ms = views.oldest_age_ms;
  stats->io_backend = io::BackendName(made->options.io_backend);
}

}  // namespace engine_race
