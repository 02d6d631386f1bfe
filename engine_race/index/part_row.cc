#include "engine_race/index/part_row.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "engine_race/index/part_cursor.h"

namespace engine_race {

PartRow::PartRow(Parts parts) {
  bounds_.reserve(parts.size());
  for (const auto& part : parts) bounds_.push_back(part->run.min_key());
  parts_ = std::move(parts);
  ENGINE_RACE_ASSERT(IsConsistent());
}

PartRow PartRow::OfNothing() {
  PartRow row;
  row.parts_.push_back(std::make_unique<Part>());
  row.bounds_ = {0};
  return row;
}

bool PartRow::IsConsistent() const {
  if (bounds_.size() != parts_.size()) return false;
  // The first bound counts as zero, whatever it is.
  return empty() || std::is_sorted(bounds_.begin() + 1, bounds_.end(), std::less_equal<>());
}

size_t PartRow::PartOf(uint64_t key) const {
  ENGINE_RACE_ASSERT(!empty());
  const size_t index = UpperRank(bounds_.data() + 1, bounds_.size() - 1, key);
  ENGINE_RACE_ASSERT(index == 0 || bounds_[index] <= key);
  ENGINE_RACE_ASSERT(index + 1 == bounds_.size() || key < bounds_[index + 1]);
  return index;
}

bool PartRow::Collect(uint64_t first_key, uint64_t last_key, uint64_t version,
                      const FrameSlots& frames, size_t max_entries,
                      std::vector<IndexEntry>* entries) const {
  if (empty() || first_key > last_key) return true;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end; ++i) {
    PartCursor cursor(*parts_[i], frames, first_key, last_key, version);
    IndexEntry entry;
    while (cursor.Next(&entry)) {
      if (entries->size() >= max_entries) return false;
      ENGINE_RACE_ASSERT(entry.key >= first_key && entry.key <= last_key);
      entries->push_back(entry);
    }
  }
  return true;
}

size_t PartRow::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                          const FrameSlots& frames, std::span<uint64_t> keys) const {
  if (empty() || first_key > last_key) return 0;
  size_t count = 0;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end && count < keys.size(); ++i) {
    PartCursor cursor(*parts_[i], frames, first_key, last_key, version);
    IndexEntry entry;
    while (count < keys.size() && cursor.Next(&entry)) {
      ENGINE_RACE_ASSERT(count == 0 || keys[count - 1] < entry.key);
      keys[count++] = entry.key;
    }
  }
  return count;
}

size_t PartRow::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                         const FrameSlots& frames, std::span<uint64_t> keys) const {
  if (empty() || first_key > last_key) return 0;
  size_t free = keys.size();
  const size_t begin = PartOf(first_key);
  for (size_t i = PartOf(last_key) + 1; i-- > begin && free > 0;) {
    PartCursor cursor(*parts_[i], frames, first_key, last_key, version);
    IndexEntry entry;
    while (free > 0 && cursor.Previous(&entry)) {
      ENGINE_RACE_ASSERT(free == keys.size() || entry.key < keys[free]);
      keys[--free] = entry.key;
    }
  }
  return keys.size() - free;
}

uint64_t PartRow::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  if (empty() || first_key > last_key) return 0;
  uint64_t count = 0;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end; ++i) {
    const Part& part = *parts_[i];
    count += UpperRank(part.run, last_key) - part.run.Rank(first_key);
    count +=
        UpperRank(part.delta.keys(), part.delta.count(), last_key) - part.delta.Rank(first_key);
  }
  return count;
}

uint64_t PartRow::memory_bytes() const {
  uint64_t bytes = own_bytes();
  for (const auto& part : parts_) bytes += part->memory_bytes() - part->history_bytes();
  return bytes;
}

uint64_t PartRow::history_bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->history_bytes();
  return bytes;
}

PartRow PartRow::MakeRoom(size_t index, size_t count, const PartReplacement& by) const {
  ENGINE_RACE_ASSERT(count > 0 && index + count <= size());
  ENGINE_RACE_ASSERT(by.parts.size() == by.first_keys.size());
  const auto at = bounds_.begin() + static_cast<ptrdiff_t>(index);
  PartRow room;
  room.bounds_.assign(bounds_.begin(), at);
  if (by.keeps_old_run) room.bounds_.push_back(*at);
  for (const uint64_t first_key : by.first_keys) {
    // A part that replaces the old part from its beginning takes over the old part's bound.
    room.bounds_.push_back(room.bounds_.size() == index ? *at : first_key);
  }
  room.bounds_.insert(room.bounds_.end(), at + static_cast<ptrdiff_t>(count), bounds_.end());
  room.parts_.reserve(room.bounds_.size());
  return room;
}

void PartRow::Replace(size_t index, size_t count, PartReplacement* by, PartRow* room) noexcept {
  ENGINE_RACE_ASSERT(room->parts_.capacity() >= room->bounds_.size());
  const auto at = parts_.begin() + static_cast<ptrdiff_t>(index);
  const auto kept_end = at + (by->keeps_old_run ? 1 : 0);
  const auto to = std::back_inserter(room->parts_);
  std::move(parts_.begin(), kept_end, to);
  std::move(by->parts.begin(), by->parts.end(), to);
  std::move(at + static_cast<ptrdiff_t>(count), parts_.end(), to);
  Swap(room);
  ENGINE_RACE_ASSERT(IsConsistent());
}

}  // namespace engine_race
