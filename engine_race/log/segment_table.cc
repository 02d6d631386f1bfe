#include "engine_race/log/segment_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"

namespace engine_race {
namespace {

using format::SegmentEntry;

constexpr uint64_t kEntrySeed = 0x9fb21c651e98df25;
// A bucket gets one segment for each so many that it has, at once. Those not used yet are holes.
constexpr uint64_t kSegmentsPerGiven = 16;
constexpr uint64_t kMaxGiven = 64;
// Entries that are read at once.
constexpr size_t kEntriesAtOnce = 4096;
// In how many pieces a large table is written again, at most.
constexpr uint64_t kMaxPieces = 64;

bool IsHole(const SegmentEntry& entry) {
  return entry.bucket == 0 && entry.index == 0 && entry.check == 0;
}

uint64_t WordOf(const SegmentPlace& place) { return uint64_t{place.file + 1} << 32 | place.place; }

}  // namespace

SegmentTable::SegmentTable(const Geometry& geometry, uint64_t seed_id, std::vector<Path> paths)
    : geometry_(geometry),
      seed_id_(seed_id),
      paths_(std::move(paths)),
      lists_(geometry.bucket_count),
      ends_(geometry.bucket_count) {
  for (const Path& path : paths_) file_count_ += path.file_count;
  given_counts_ = std::vector<std::atomic<uint64_t>>(file_count_);
  given_.resize(file_count_);
  next_.resize(file_count_);
}

SegmentTable::~SegmentTable() = default;

SegmentEntry SegmentTable::EntryOf(uint32_t bucket, uint64_t index, uint64_t number) const {
  const uint64_t words[] = {bucket, index, number};
  return {bucket, static_cast<uint32_t>(index),
          Hash64(words, sizeof(words), seed_id_ ^ kEntrySeed)};
}

template <typename TakeFn>
Status SegmentTable::ReadEntries(uint64_t number, size_t count, size_t* read_count,
                                 const TakeFn& take) const {
  std::vector<SegmentEntry> entries(count);
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_->ReadSome(entries.data(), count * sizeof(entries[0]),
                                              number * sizeof(entries[0]), &read_bytes));
  *read_count = read_bytes / sizeof(entries[0]);
  for (size_t i = 0; i < *read_count; ++i) {
    if (!IsHole(entries[i])) ENGINE_RACE_RETURN_IF_ERROR(take(entries[i], number + i));
  }
  return Status::Ok();
}

// Bounds the length of all lists together, so that a hostile table cannot make them longer.
// Segments of a bucket go to the paths in turn, as a rule. So one entry of a bucket may stand for a
// segment on each path: a power loss that cuts the table may leave the entries of one path alone.
// It may also cut off the last entries of each file. Of a path that was left out before, it may
// leave more entries than that, which then count as damaged.
Status SegmentTable::MostListed(uint64_t* most_listed) const {
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_->Size(&size_bytes));
  *most_listed =
      size_bytes / sizeof(SegmentEntry) * paths_.size() + file_count_ * kPage + kEntriesAtOnce;
  return Status::Ok();
}

Status SegmentTable::Load(const io::File& file, uint64_t* damaged_count) {
  file_ = &file;
  *damaged_count = 0;
  uint64_t most_listed = 0;
  ENGINE_RACE_RETURN_IF_ERROR(MostListed(&most_listed));
  const auto is_ready = [](uint32_t) { return Status::Ok(); };
  const auto take = [&](const SegmentEntry& entry, uint64_t number) {
    return TakeEntry(entry, number, most_listed, damaged_count, is_ready);
  };
  size_t count = kEntriesAtOnce;
  for (uint64_t number = 0; count == kEntriesAtOnce; number += count) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(number, kEntriesAtOnce, &count, take));
  }
  return Status::Ok();
}

Status SegmentTable::LoadMore(uint32_t bucket, PrepareFn prepare) {
  uint64_t most_listed = 0;
  ENGINE_RACE_RETURN_IF_ERROR(MostListed(&most_listed));
  for (const Path& path : paths_) {
    ENGINE_RACE_RETURN_IF_ERROR(TakeNew(FileOf(path, bucket), most_listed, prepare));
  }
  return Status::Ok();
}

// Places of a file are given from the lowest one on. So all new ones lie behind those that are
// known. An entry in front of others may never be read: it is damaged, or its writer could not
// write it. So the pages behind are read up to the end of the table.
Status SegmentTable::TakeNew(uint32_t file, uint64_t most_listed, PrepareFn prepare) {
  uint64_t damaged_count = 0;
  const auto take = [&](const SegmentEntry& entry, uint64_t number) {
    return TakeEntry(entry, number, most_listed, &damaged_count, prepare);
  };
  size_t count = kPage;
  for (uint64_t page = NextPlace(file) / kPage; count == kPage; ++page) {
    ENGINE_RACE_RETURN_IF_ERROR(
        ReadEntries((page * file_count_ + file) * kPage, kPage, &count, take));
  }
  return Status::Ok();
}

uint64_t SegmentTable::NextPlace(uint32_t file) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return next_[file];
}

Status SegmentTable::TakeEntry(const SegmentEntry& entry, uint64_t number, uint64_t most_listed,
                               uint64_t* damaged_count, PrepareFn prepare) {
  const uint64_t page = number / kPage;
  const auto file = static_cast<uint32_t>(page % file_count_);
  const uint64_t in_file = page / file_count_ * kPage + number % kPage;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Of an earlier Load: entries never change.
  if (IsGiven(file, in_file)) return Status::Ok();
  const bool set_aside = entry.bucket == format::kNoBucket;
  // A place that its device does not have is none of this store's.
  if (in_file >= CapacityOf(file) || (entry.bucket >= geometry_.bucket_count && !set_aside) ||
      entry.index >= format::kMaxSegmentsPerBucket ||
      (!set_aside && !MayList(entry.bucket, entry.index, most_listed)) ||
      entry.check != EntryOf(entry.bucket, entry.index, number).check) {
    ++*damaged_count;
    return Status::Ok();
  }
  const SegmentPlace place = {file, static_cast<uint32_t>(in_file)};
  if (set_aside) {
    Take(place);
    return Status::Ok();
  }
  SegmentPlace other;
  if (Find(entry.bucket, entry.index, &other)) {
    return Status::Corruption(file_->name() + ": entries " + std::to_string(NumberOf(other)) +
                              " and " + std::to_string(number) + " are of one segment");
  }
  ENGINE_RACE_RETURN_IF_ERROR(prepare(place.file));
  // Lengthen may find no memory. A place that is taken and not published would not be read again.
  Lengthen(entry.bucket, entry.index + uint64_t{1});
  Take(place);
  Publish(entry.bucket, entry.index, place);
  return Status::Ok();
}

// Under mutex_. Whether the lists stay short with that segment in them.
bool SegmentTable::MayList(uint32_t bucket, uint64_t index, uint64_t most_listed) const {
  const uint64_t end = SegmentEnd(bucket);
  return listed_count_ - end + std::max(end, index + 1) <= most_listed;
}

uint64_t SegmentTable::CapacityOf(uint32_t file) const {
  for (const Path& path : paths_) {
    if (file - path.first_file < path.file_count) return path.capacity;
  }
  return 0;
}

// Notes that a place is given.
void SegmentTable::Take(const SegmentPlace& place) {
  std::vector<bool>& given = given_[place.file];
  if (place.place >= given.size()) given.resize(uint64_t{place.place} + 1);
  given[place.place] = true;
  uint64_t& next = next_[place.file];
  while (next < given.size() && given[next]) ++next;
  // Relaxed: a statistic.
  given_counts_[place.file].fetch_add(1, std::memory_order_relaxed);
}

// Makes the list of a bucket at least so long.
void SegmentTable::Lengthen(uint32_t bucket, uint64_t wanted_length) {
  // Relaxed, here and in Publish: only holders of mutex_ change lists.
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
void SegmentTable::Publish(uint32_t bucket, uint64_t index, const SegmentPlace& place) noexcept {
  // Release, for the acquires in Find and SegmentEnd.
  lists_[bucket].load(std::memory_order_relaxed)[1 + index].store(WordOf(place),
                                                                  std::memory_order_release);
  const uint64_t end = ends_[bucket].load(std::memory_order_relaxed);
  if (index >= end) {
    listed_count_ += index + 1 - end;
    ends_[bucket].store(index + 1, std::memory_order_release);
  }
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

// Neighbouring buckets are in the same files.
bool SegmentTable::Choose(uint32_t bucket, uint64_t index, std::span<const uint64_t> free_bytes,
                          SegmentPlace* first, uint64_t* count) {
  const Path* const path = ChoosePath(bucket, index, free_bytes);
  if (path == nullptr) return false;
  first->file = FileOf(*path, bucket);
  const uint64_t place = next_[first->file];
  first->place = static_cast<uint32_t>(place);
  const std::vector<bool>& given = given_[first->file];
  // A place on a device is space.
  const bool looks_ahead = paths_.size() == 1 && path->capacity == format::kMaxFilePlaces;
  const uint64_t wanted =
      looks_ahead ? std::clamp(SegmentEnd(bucket) / kSegmentsPerGiven, uint64_t{1}, kMaxGiven) : 1;
  // The entries lie in one page, so that they are written as a whole.
  const uint64_t most = std::min({wanted, kPage - place % kPage, path->capacity - place,
                                  std::max(geometry_.rows_per_bucket(), index + 1) - index});
  SegmentPlace other;
  *count = 1;
  while (*count < most && (place + *count >= given.size() || !given[place + *count]) &&
         !Find(bucket, index + *count, &other)) {
    ++*count;
  }
  return true;
}

Status SegmentTable::Give(uint32_t bucket, uint64_t index, FreeBytesFn free_bytes_of,
                          HasRoomFn has_room, GrowFn grow) {
  ENGINE_RACE_ASSERT(index < format::kMaxSegmentsPerBucket);
  std::array<uint64_t, kMaxPathCount> free_bytes = {};
  while (true) {
    for (size_t path = 0; path < paths_.size(); ++path) {
      free_bytes[path] = paths_.size() == 1 ? 0 : free_bytes_of(path);
    }
    SegmentPlace first;
    uint64_t count = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (Find(bucket, index, &first)) return Status::Ok();
      if (in_doubt_) return Status::IOError(file_->name() + ": an earlier write of it has failed");
      if (!Choose(bucket, index, free_bytes, &first, &count)) {
        return Status::Full("no path has room for another segment");
      }
      if (has_room(first.file, first.place + count)) {
        return GiveChosen(bucket, index, first, count);
      }
    }
    // Other calls may take the room; each of them gives a segment.
    ENGINE_RACE_RETURN_IF_ERROR(grow(first.file, first.place + count));
  }
}

// Under mutex_.
Status SegmentTable::GiveChosen(uint32_t bucket, uint64_t index, const SegmentPlace& first,
                                uint64_t count) {
  std::array<SegmentEntry, kMaxGiven> entries;
  const uint64_t number = NumberOf(first);
  for (uint64_t i = 0; i < count; ++i) entries[i] = EntryOf(bucket, index + i, number + i);
  // What needs memory comes before the write.
  Lengthen(bucket, index + count);
  given_[first.file].reserve(first.place + count);
  in_doubt_ = true;
  Status written =
      file_->Write(entries.data(), count * sizeof(entries[0]), number * sizeof(entries[0]));
  // A full disk takes none of a page.
  in_doubt_ = !written.ok() && written.code() != Code::kFull;
  if (!written.ok()) return written;
  unsynced_ = true;
  for (uint64_t i = 0; i < count; ++i) {
    const SegmentPlace place = {first.file, first.place + static_cast<uint32_t>(i)};
    Take(place);
    Publish(bucket, index + i, place);
  }
  return Status::Ok();
}

Status SegmentTable::SetAside(uint32_t file, uint64_t place_end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<SegmentPlace> places;
  for (uint64_t place = next_[file]; place < std::min(place_end, CapacityOf(file)); ++place) {
    if (!IsGiven(file, place)) places.push_back({file, static_cast<uint32_t>(place)});
  }
  for (const SegmentPlace& place : places) Take(place);
  if (!places.empty()) unsynced_ = true;
  for (const SegmentPlace& place : places) {
    const uint64_t number = NumberOf(place);
    const SegmentEntry entry = EntryOf(format::kNoBucket, 0, number);
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
  for (uint32_t file = 0; file < file_count_; ++file) {
    place_end = std::max(place_end, PlaceEnd(file));
  }
  const uint64_t number_end = (place_end + kPage - 1) / kPage * file_count_ * kPage;
  unsynced_ = true;
  // All segments are looked at for each piece, so there are few pieces.
  const uint64_t at_once =
      std::max<uint64_t>(kEntriesAtOnce, number_end / kMaxPieces / kPage * kPage + kPage);
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
  if (flush_failed_) return Status::IOError(file_->name() + ": an earlier flush of it has failed");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!unsynced_) return Status::Ok();
    // What is given from here on belongs to the next flush.
    unsynced_ = false;
  }
  // Also when the message of a failure finds no memory.
  flush_failed_ = true;
  ENGINE_RACE_RETURN_IF_ERROR(file_->DataSync());
  flush_failed_ = false;
  return Status::Ok();
}

}  // namespace engine_race
