#include "engine_race/index/part_row.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "engine_race/index/part_cursor.h"

namespace engine_race {

PartRow::PartRow(Parts parts) {
  bounds_.reserve(parts.size());
  for (const auto& part : parts) bounds_.push_back(part->min_run_key());
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

namespace {

// The stretch of a part's run that a walk needs next. False: it must be read first.
bool FindSpan(const Part& part, const PartRow::Walk& walk, WantedKeys* wanted, RunSpan* span) {
  if (!part.is_paged()) {
    *span = SpanOf(part.run, wanted->first, wanted->last);
    return true;
  }
  ENGINE_RACE_ASSERT(walk.slices != nullptr && walk.blocks != nullptr);
  if (!walk.slices->Find(*part.extent, *walk.blocks, walk.slots, wanted, span)) return false;
  *span = SpanOf(*span, wanted->first, wanted->last);
  return true;
}

void CountCrossed(const Part& part, const PartCursor& cursor, const PartRow::Walk& walk) {
  const uint32_t count = cursor.crossed_count();
  if (count == 0 || walk.wants_merge == nullptr) return;
  *walk.wants_merge |= part.crossed.Add(count, part.run_count() + part.delta.count());
}

}  // namespace

template <typename VisitFn>
bool PartRow::WalkParts(const Walk& walk, size_t max_count, bool from_back,
                        const VisitFn& visit) const {
  if (empty() || walk.first_key > walk.last_key) return true;
  const size_t begin = PartOf(walk.first_key);
  const size_t end = PartOf(walk.last_key);
  for (size_t i = begin; i <= end; ++i) {
    const Part& part = *parts_[from_back ? end - (i - begin) : i];
    WantedKeys wanted = {walk.first_key, walk.last_key, max_count, from_back};
    while (true) {
      RunSpan span;
      if (!FindSpan(part, walk, &wanted, &span)) return false;
      PartCursor cursor(part, span, walk.slots, wanted.first, wanted.last, walk.version);
      const bool goes_on = visit(&cursor);
      CountCrossed(part, cursor, walk);
      if (!goes_on) return true;
      // FindSpan has left out what lies behind the span.
      if (from_back) {
        if (wanted.first == walk.first_key) break;
        wanted = {walk.first_key, wanted.first - 1, max_count, from_back};
      } else {
        if (wanted.last == walk.last_key) break;
        wanted = {wanted.last + 1, walk.last_key, max_count, from_back};
      }
    }
  }
  return true;
}

bool PartRow::Collect(const Walk& walk, size_t max_entries, std::vector<IndexEntry>* entries,
                      bool* complete) const {
  *complete = true;
  const size_t before = entries->size();
  const size_t most = max_entries > before ? max_entries - before : 0;
  const bool walked = WalkParts(walk, most, /*from_back=*/false, [&](PartCursor* cursor) {
    const size_t first = entries->size();
    *complete = cursor->AppendNext(max_entries, entries);
    ENGINE_RACE_ASSERT(first == entries->size() || ((*entries)[first].key >= walk.first_key &&
                                                    entries->back().key <= walk.last_key));
    return *complete;
  });
  if (!walked) entries->resize(before);
  return walked;
}

bool PartRow::FirstKeys(const Walk& walk, std::span<uint64_t> keys, size_t* count) const {
  *count = 0;
  return WalkParts(walk, keys.size(), /*from_back=*/false, [&](PartCursor* cursor) {
    IndexEntry entry;
    while (*count < keys.size() && cursor->Next(&entry)) {
      ENGINE_RACE_ASSERT(*count == 0 || keys[*count - 1] < entry.key);
      keys[(*count)++] = entry.key;
    }
    return *count < keys.size();
  });
}

bool PartRow::LastKeys(const Walk& walk, std::span<uint64_t> keys, size_t* count) const {
  size_t free = keys.size();
  const bool walked = WalkParts(walk, keys.size(), /*from_back=*/true, [&](PartCursor* cursor) {
    IndexEntry entry;
    while (free > 0 && cursor->Previous(&entry)) {
      ENGINE_RACE_ASSERT(free == keys.size() || entry.key < keys[free]);
      keys[--free] = entry.key;
    }
    return free > 0;
  });
  *count = keys.size() - free;
  return walked;
}

uint64_t PartRow::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  if (empty() || first_key > last_key) return 0;
  uint64_t count = 0;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end; ++i) {
    const Part& part = *parts_[i];
    count += part.is_paged() ? part.extent->EstimateCount(first_key, last_key)
                             : SpanOf(part.run, first_key, last_key).count;
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

RunCounts PartRow::run_counts() const {
  RunCounts counts;
  for (const auto& part : parts_) counts.Add(*part);
  return counts;
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
