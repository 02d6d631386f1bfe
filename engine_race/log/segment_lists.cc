#include "engine_race/log/segment_lists.h"

#include <algorithm>
#include <utility>

namespace engine_race {

void SegmentLists::Lengthen(uint32_t bucket, uint64_t wanted_length) {
  // Relaxed, here and in Store: one thread at a time changes lists.
  const std::atomic<uint64_t>* const list = lists_[bucket].load(std::memory_order_relaxed);
  const uint64_t length = list == nullptr ? 0 : list[0].load(std::memory_order_relaxed);
  if (wanted_length <= length) return;
  const uint64_t longer_length = std::max(wanted_length, length + length / 2 + 3);
  auto longer = std::make_unique<std::atomic<uint64_t>[]>(1 + longer_length);
  longer[0].store(longer_length, std::memory_order_relaxed);
  for (uint64_t i = 1; i <= length; ++i) {
    longer[i].store(list[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  owned_lists_.push_back(std::move(longer));
  // Release, for Find's acquire.
  lists_[bucket].store(owned_lists_.back().get(), std::memory_order_release);
}

// The list is long enough.
void SegmentLists::Store(uint32_t bucket, uint64_t index, uint64_t word) noexcept {
  // Release, for the acquires in Find and end.
  lists_[bucket].load(std::memory_order_relaxed)[1 + index].store(word, std::memory_order_release);
  const uint64_t end_before = ends_[bucket].load(std::memory_order_relaxed);
  uint64_t end = std::max(end_before, index + 1);
  SegmentPlace place;
  while (end > 0 && !Find(bucket, end - 1, &place)) --end;
  length_ = length_ - end_before + end;
  ends_[bucket].store(end, std::memory_order_release);
}

}  // namespace engine_race
