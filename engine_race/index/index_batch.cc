// Index::Prefetch: takes each step of a lookup for many keys before the next step.
#include <algorithm>
#include <array>

#include "engine_race/base/assert.h"
#include "engine_race/base/key_scan.h"
#include "engine_race/index/index.h"
#include "engine_race/index/index_impl.h"

namespace engine_race {
namespace {

// Keys that take the steps together.
constexpr size_t kPrefetchedAtOnce = 64;

}  // namespace

void Index::Prefetch(std::span<const uint64_t> keys, std::span<RunWindow> windows) const {
  ENGINE_RACE_ASSERT(windows.size() >= keys.size());
  std::fill_n(windows.begin(), keys.size(), RunWindow());
  const bool has_flat_runs = impl_->paging->has_flat_runs();
  const bool has_blocks = impl_->frames != nullptr && impl_->paging->has_paged_runs();
  for (size_t begin = 0; begin < keys.size(); begin += kPrefetchedAtOnce) {
    const size_t count = std::min(keys.size() - begin, kPrefetchedAtOnce);
    if (has_flat_runs) PrefetchRuns(keys.subspan(begin, count), windows.subspan(begin, count));
    if (has_blocks) PrefetchBlocks(keys.subspan(begin, count), windows.subspan(begin, count));
  }
}

void Index::PrefetchBlocks(std::span<const uint64_t> keys, std::span<RunWindow> windows) const {
  const l1::EpochManager::Guard guard(impl_->frames->epochs());
  const BlockFrames& frames = impl_->paging->blocks();
  std::array<BlockFrames::Place, kPrefetchedAtOnce> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    const PagedRuns* const runs = impl_->buckets[impl_->BucketOf(keys[i])].paged_runs();
    if (runs != nullptr) runs->FindFences(keys[i], &places[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (places[i].fences != nullptr && frames.FindBlock(keys[i], &places[i])) {
      BlockFrames::PrefetchKeys(keys[i], &places[i]);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (places[i].block != nullptr && BlockFrames::FindKey(keys[i], &places[i])) {
      windows[i].block = places[i].number;
      windows[i].place = places[i].in_block;
    }
  }
}

void Index::PrefetchRuns(std::span<const uint64_t> keys, std::span<RunWindow> windows) const {
  struct Place {
    const RunView* run = nullptr;
    CellMap::Position position;
    uint32_t width = 0;
    bool is_locked = false;
  };
  std::array<Place, kPrefetchedAtOnce> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    const BucketIndex& bucket = impl_->buckets[impl_->BucketOf(keys[i])];
    Place& place = places[i];
    place.is_locked = !bucket.unchanged().PrefetchCell(keys[i], &place.run, &place.position);
    if (place.is_locked) bucket.PrefetchCell(keys[i]);
  }
  bool is_wide = false;
  for (size_t i = 0; i < keys.size(); ++i) {
    const BucketIndex& bucket = impl_->buckets[impl_->BucketOf(keys[i])];
    Place& place = places[i];
    if (place.is_locked) {
      bucket.PrefetchWindow(keys[i]);
    } else if (place.run != nullptr) {
      place.width = bucket.unchanged().PrefetchWindow(*place.run, place.position, &windows[i]);
      is_wide |= place.width > kScanKeyCount;
    }
  }
  while (is_wide) {
    is_wide = false;
    for (size_t i = 0; i < keys.size(); ++i) {
      uint32_t& width = places[i].width;
      if (width <= kScanKeyCount) continue;
      width = RunView::Narrow(keys[i], width, &windows[i]);
      is_wide |= width > kScanKeyCount;
    }
  }
}

}  // namespace engine_race
