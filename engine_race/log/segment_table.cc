#include "engine_race/log/segment_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"

namespace engine_race {
namespace {

using format::SegmentEntry;

constexpr uint64_t kEntrySeed = 0x9fb21c651e98df25;
// A bucket gets one segment for each so many that it has, at once. Those not used yet are holes.
constexpr uint64_t kSegmentsPerGiven = 16;
constexpr uint64_t kMaxGiven = 64;
// Entries that are written again at once, and in how many pieces a large table is, at most.
constexpr uint64_t kPiece = 4096;
constexpr uint64_t kMaxPieces = 64;

}  // namespace

SegmentTable::SegmentTable(const Geometry& geometry, uint64_t seed_id, std::vector<Path> paths)
    : geometry_(geometry),
      seed_id_(seed_id),
      paths_(std::move(paths)),
      lists_(geometry.bucket_count) {
  for (const Path& path : paths_) file_count_ += path.file_count;
  given_counts_ = std::vector<std::atomic<uint64_t>>(file_count_);
  states_.resize(file_count_);
  next_.resize(file_count_);
}

SegmentTable::~SegmentTable() = default;

SegmentEntry SegmentTable::EntryOf(uint32_t bucket, uint64_t index, uint64_t number) const {
  const uint64_t words[] = {bucket, index, number};
  return {bucket, static_cast<uint32_t>(index),
          Hash64(words, sizeof(words), seed_id_ ^ kEntrySeed)};
}

uint64_t SegmentTable::CapacityOf(uint32_t file) const {
  for (const Path& path : paths_) {
    if (file - path.first_file < path.file_count) return path.capacity;
  }
  return 0;
}

// Throws nothing where states_ is long enough, or has the capacity.
void SegmentTable::Note(const SegmentPlace& place, State state) {
  std::vector<State>& states = states_[place.file];
  if (place.place >= states.size()) states.resize(uint64_t{place.place} + 1);
  const auto change = static_cast<int64_t>(state == State::kGiven) -
                      static_cast<int64_t>(states[place.place] == State::kGiven);
  states[place.place] = state;
  // Relaxed: a statistic.
  given_counts_[place.file].fetch_add(static_cast<uint64_t>(change), std::memory_order_relaxed);
  uint64_t& next = next_[place.file];
  while (next < states.size() && states[next] == State::kGiven) ++next;
}

// The first free place of each file may be given.
void SegmentTable::FindNext() {
  for (uint32_t file = 0; file < file_count_; ++file) {
    const std::vector<State>& states = states_[file];
    const auto free = std::find_if(states.begin(), states.end(),
                                   [](State state) { return state != State::kGiven; });
    next_[file] = static_cast<uint64_t>(free - states.begin());
  }
}

// Of the file, at least. It has no fewer entries up to the last one.
uint64_t SegmentTable::EntryCount() const {
  uint64_t count = 0;
  for (const std::vector<State>& states : states_) count += states.size();
  return count;
}

uint64_t SegmentTable::PlaceEnd(uint32_t file) const {
  const std::vector<State>& states = states_[file];
  uint64_t end = states.size();
  while (end > 0 && states[end - 1] != State::kGiven) --end;
  return end;
}

// The segments of a bucket take turns on the paths, and another bucket begins with another path. A
// path without a free place is left out. So is one that has less free space than its share of one
// segment for each bucket, and less than half of what the best path has. Segments that are not full
// yet may still take that share. Null: no path has a free place.
const SegmentTable::Path* SegmentTable::ChoosePath(uint32_t bucket, uint64_t index,
                                                   std::span<const uint64_t> free_bytes) const {
  const uint64_t unfilled_bytes =
      geometry_.bucket_count * geometry_.segment_value_bytes() / paths_.size();
  const auto has_place = [&](size_t path) {
    return next_[FileOf(paths_[path], bucket)] < paths_[path].capacity;
  };
  uint64_t most_bytes = 0;
  for (size_t path = 0; path < paths_.size(); ++path) {
    if (has_place(path)) most_bytes = std::max(most_bytes, free_bytes[path]);
  }
  const uint64_t enough_bytes = std::min(unfilled_bytes, most_bytes / 2);
  for (size_t tried = 0; tried < paths_.size(); ++tried) {
    const size_t path = (bucket + index + tried) % paths_.size();
    if (has_place(path) && free_bytes[path] >= enough_bytes) return &paths_[path];
  }
  return nullptr;
}

// Neighbouring buckets are in the same files. `alone`: no other segments get places.
bool SegmentTable::Choose(uint32_t bucket, uint64_t index, std::span<const uint64_t> free_bytes,
                          bool alone, SegmentPlace* first, uint64_t* count) {
  const Path* const path = ChoosePath(bucket, index, free_bytes);
  if (path == nullptr) return false;
  first->file = FileOf(*path, bucket);
  uint64_t place = next_[first->file];
  // A place that is used again adds no entry. What an opening lists must not outgrow the entries.
  if (place < states_[first->file].size() &&
      lists_.LengthWith(bucket, index) > MostListed(flushed_count_)) {
    place = states_[first->file].size();
    if (place == path->capacity) return false;
  }
  first->place = static_cast<uint32_t>(place);
  // A place on a device is space.
  const bool looks_ahead = !alone && paths_.size() == 1 && path->capacity == format::kMaxFilePlaces;
  const uint64_t wanted =
      looks_ahead ? std::clamp(SegmentEnd(bucket) / kSegmentsPerGiven, uint64_t{1}, kMaxGiven) : 1;
  // The entries lie in one page, so that they are written as a whole.
  const uint64_t most = std::min({wanted, kPage - place % kPage, path->capacity - place,
                                  std::max(geometry_.rows_per_bucket(), index + 1) - index});
  SegmentPlace other;
  *count = 1;
  while (*count < most && !IsGiven(first->file, place + *count) &&
         !Find(bucket, index + *count, &other)) {
    ++*count;
  }
  return true;
}

Status SegmentTable::Give(uint32_t bucket, uint64_t index, FreeBytesFn free_bytes_of,
                          HasRoomFn has_room, GrowFn grow, const PrepareFn* prepare) {
  ENGINE_RACE_ASSERT(index < format::kMaxSegmentsPerBucket);
  std::array<uint64_t, kMaxPathCount> free_bytes = {};
  while (true) {
    for (size_t path = 0; path < paths_.size(); ++path) {
      free_bytes[path] = paths_.size() == 1 ? 0 : free_bytes_of(path);
    }
    SegmentPlace first;
    uint64_t count = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (Find(bucket, index, &first)) return Status::Ok();
      if (in_doubt_) return WasInterrupted();
      if (!Choose(bucket, index, free_bytes, prepare != nullptr, &first, &count)) {
        return Status::Full("no path has room for another segment");
      }
      if (has_room(first.file, first.place + count)) {
        if (prepare == nullptr) return GiveChosen(bucket, index, first, count);
        return PrepareAndGive(bucket, index, first, *prepare, &lock);
      }
    }
    // Other calls may take the room; each of them gives a segment.
    ENGINE_RACE_RETURN_IF_ERROR(grow(first.file, first.place + count));
  }
}

// Under mutex_, which is let go meanwhile.
Status SegmentTable::PrepareAndGive(uint32_t bucket, uint64_t index, const SegmentPlace& place,
                                    PrepareFn prepare, std::unique_lock<std::mutex>* lock) {
  std::vector<State>& states = states_[place.file];
  const State before = place.place < states.size() ? states[place.place] : State::kNone;
  // Others may get the places behind it, and no entry in front of theirs is missing.
  if (before == State::kNone) {
    states.reserve(uint64_t{place.place} + 1);
    const uint64_t number = NumberOf(place);
    const SegmentEntry entry = EntryOf(format::kNoBucket, format::kGivenBack, number);
    ENGINE_RACE_RETURN_IF_ERROR(WriteEntries({&entry, 1}, number));
  }
  Note(place, State::kGiven);
  Status given;
  if (before != State::kFreed) {
    lock->unlock();
    given = Guarded([&] { return prepare(NumberOf(place)); });
    lock->lock();
  }
  if (given.ok()) given = Guarded([&] { return GiveChosen(bucket, index, place, 1); });
  if (given.ok()) return given;
  // Prepared or not, it may be given to others.
  Note(place, before);
  next_[place.file] = std::min<uint64_t>(next_[place.file], place.place);
  return given;
}

// Under mutex_.
Status SegmentTable::GiveChosen(uint32_t bucket, uint64_t index, const SegmentPlace& first,
                                uint64_t count) {
  std::array<SegmentEntry, kMaxGiven> entries;
  const uint64_t number = NumberOf(first);
  for (uint64_t i = 0; i < count; ++i) entries[i] = EntryOf(bucket, index + i, number + i);
  // What needs memory comes before the write.
  lists_.Lengthen(bucket, index + count);
  states_[first.file].reserve(first.place + count);
  ENGINE_RACE_RETURN_IF_ERROR(WriteEntries({entries.data(), count}, number));
  for (uint64_t i = 0; i < count; ++i) {
    const SegmentPlace place = {first.file, first.place + static_cast<uint32_t>(i)};
    Note(place, State::kGiven);
    lists_.Set(bucket, index + i, place);
  }
  return Status::Ok();
}

// Under mutex_.
Status SegmentTable::WriteEntries(std::span<const SegmentEntry> entries, uint64_t number) {
  if (in_doubt_) return WasInterrupted();
  in_doubt_ = true;
  Status written = file_->Write(entries.data(), entries.size_bytes(), number * sizeof(entries[0]));
  // A full disk takes none of a page.
  in_doubt_ = !written.ok() && written.code() != Code::kFull;
  if (written.ok()) unsynced_ = true;
  return written;
}

Status SegmentTable::WasInterrupted() const {
  return Status::IOError(file_->name() + ": an earlier write of it has failed");
}

Status SegmentTable::GiveBack(uint32_t bucket, uint64_t index, SegmentPlace* place) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool found = Find(bucket, index, place);
  ENGINE_RACE_ASSERT(found);
  const uint64_t number = NumberOf(*place);
  const SegmentEntry entry = EntryOf(format::kNoBucket, format::kGivenBack, number);
  ENGINE_RACE_RETURN_IF_ERROR(WriteEntries({&entry, 1}, number));
  lists_.Clear(bucket, index);
  return Status::Ok();
}

void SegmentTable::Free(const SegmentPlace& place) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  Note(place, State::kFreed);
  next_[place.file] = std::min<uint64_t>(next_[place.file], place.place);
}

Status SegmentTable::SetAside(uint32_t file, uint64_t place_end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentPlace> places;
  for (uint64_t place = 0; place < std::min(place_end, CapacityOf(file)); ++place) {
    if (!IsGiven(file, place)) places.push_back({file, static_cast<uint32_t>(place)});
  }
  for (const SegmentPlace& place : places) Note(place, State::kGiven);
  if (!places.empty()) unsynced_ = true;
  for (const SegmentPlace& place : places) {
    const uint64_t number = NumberOf(place);
    const SegmentEntry entry = EntryOf(format::kNoBucket, format::kSetAside, number);
    ENGINE_RACE_RETURN_IF_ERROR(file_->Write(&entry, sizeof(entry), number * sizeof(entry)));
  }
  return Status::Ok();
}

template <typename Visit>
void SegmentTable::ForEachGiven(const Visit& visit) const {
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    for (uint64_t index = 0; index < SegmentEnd(bucket); ++index) {
      SegmentPlace place;
      if (Find(bucket, index, &place)) visit(bucket, index, NumberOf(place));
    }
  }
}

Status SegmentTable::WriteAgain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t place_end = 0;
  for (const std::vector<State>& states : states_) place_end = std::max(place_end, states.size());
  const uint64_t number_end = (place_end + kPage - 1) / kPage * file_count_ * kPage;
  unsynced_ = true;
  // All segments are looked at for each piece, so there are few pieces.
  const uint64_t at_once =
      std::max<uint64_t>(kPiece, number_end / kMaxPieces / kPage * kPage + kPage);
  std::vector<SegmentEntry> entries(at_once);
  for (uint64_t first = 0; first < number_end; first += at_once) {
    // The file has what memory has, and damaged entries. But it may be memory alone that still has
    // what the kernel took for clean.
    size_t read_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(file_->ReadSome(entries.data(), at_once * sizeof(entries[0]),
                                                first * sizeof(entries[0]), &read_bytes));
    std::fill(entries.begin() + static_cast<ptrdiff_t>(read_bytes / sizeof(entries[0])),
              entries.end(), SegmentEntry());
    ForEachGiven([&](uint32_t bucket, uint64_t index, uint64_t number) {
      if (number - first < at_once) entries[number - first] = EntryOf(bucket, index, number);
    });
    for (uint64_t number = first; number < std::min(first + at_once, number_end); ++number) {
      const SegmentPlace place = PlaceOf(number);
      SegmentEntry& entry = entries[number - first];
      if (IsHole(entry) && place.place < states_[place.file].size()) {
        entry = EntryOf(format::kNoBucket, format::kGivenBack, number);
      }
    }
    for (uint64_t i = 0; i < at_once; i += kPage) {
      const SegmentEntry* const page = &entries[i];
      // Holes stay holes: the disk may be full.
      if (std::all_of(page, page + kPage, IsHole)) continue;
      ENGINE_RACE_RETURN_IF_ERROR(
          file_->Write(page, kPage * sizeof(*page), (first + i) * sizeof(*page)));
    }
  }
  return Status::Ok();
}

Status SegmentTable::Flush() {
  const std::lock_guard<std::mutex> flushing(flush_mutex_);
  uint64_t entry_count = 0;
  if (flush_failed_) return Status::IOError(file_->name() + ": an earlier flush of it has failed");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!unsynced_) return Status::Ok();
    // What is given from here on belongs to the next flush.
    unsynced_ = false;
    entry_count = EntryCount();
  }
  // Also when the message of a failure finds no memory.
  flush_failed_ = true;
  ENGINE_RACE_RETURN_IF_ERROR(file_->DataSync());
  flush_failed_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(has_flushed_, true)) FindNext();
  flushed_count_ = entry_count;
  return Status::Ok();
}

}  // namespace engine_race
