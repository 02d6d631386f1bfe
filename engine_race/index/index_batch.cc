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
    const l1::EpochManager::Guard guard(impl_->shared->epochs());
    if (has_flat_runs) PrefetchFlat(keys.subspan(begin, count), windows.subspan(begin, count));
    if (has_blocks) PrefetchBlocks(keys.subspan(begin, count), windows.subspan(begin, count));
  }
}

void Index::PrefetchBlocks(std::span<const uint64_t> keys, std::span<RunWindow> windows) const {
  const BlockFrames& frames = impl_->paging->blocks();
  std::array<BlockFrames::Place, kPrefetchedAtOnce> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    const PublishedRuns* const runs = impl_->buckets[impl_->BucketOf(keys[i])].published();
    if (runs != nullptr) runs->FindFences(keys[i], &places[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (places[i].fences != nullptr && frames.FindBlock(keys[i], &places[i])) {
      BlockFrames::PrefetchKeys(keys[i], &places[i]);
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (places[i].block != nullptr && BlockFrames::FindKey(keys[i], &places[i])) {
      windows[i] = {places[i].number, places[i].in_block};
    }
  }
}

void Index::PrefetchFlat(std::span<const uint64_t> keys, std::span<RunWindow> windows) const {
  struct Place {
    const RunView* run = nullptr;
    CellMap::Position position;
    uint32_t width = 0;  // of the window
    bool is_locked = false;
  };
  std::array<Place, kPrefetchedAtOnce> places;
  for (size_t i = 0; i < keys.size(); ++i) {
    const BucketIndex& bucket = impl_->buckets[impl_->BucketOf(keys[i])];
    const PublishedRuns* const runs = bucket.published();
    if (runs != nullptr) [[likely]] {
      places[i].run = runs->PrefetchCell(keys[i], &places[i].position, &windows[i]);
    } else {
      places[i].is_locked = true;
      bucket.PrefetchCell(keys[i]);
    }
  }
  bool is_wide = false;
  for (size_t i = 0; i < keys.size(); ++i) {
    Place& place = places[i];
    if (place.run != nullptr) [[likely]] {
      place.width = place.run->PrefetchWindow(place.position, &windows[i].place);
      is_wide |= place.width > kScanKeyCount;
    } else if (place.is_locked) {
      impl_->buckets[impl_->BucketOf(keys[i])].PrefetchWindow(keys[i]);
    }
  }
  while (is_wide) {
    is_wide = false;
    for (size_t i = 0; i < keys.size(); ++i) {
      uint32_t& width = places[i].width;
      if (width <= kScanKeyCount) continue;
      width = places[i].run->Narrow(keys[i], width, &windows[i].place);
      is_wide |= width > kScanKeyCount;
    }
  }
}

}  // namespace engine_race
