// Of SegmentTable: reads its entries from the file.
#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/log/segment_table.h"

namespace engine_race {
namespace {

using format::SegmentEntry;

// Entries that are read at once.
constexpr size_t kEntriesAtOnce = 4096;

}  // namespace

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
// leave more entries than that, which then count as damaged. Rows may have given their places back
// to rows of other buckets: Choose keeps within the bound.
Status SegmentTable::ReadMostListed(uint64_t* most_listed) const {
  uint64_t size_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file_->Size(&size_bytes));
  *most_listed = MostListed(size_bytes / sizeof(SegmentEntry)) + kEntriesAtOnce;
  return Status::Ok();
}

Status SegmentTable::Load(const io::File& file, uint64_t* damaged_count, bool beside_writer) {
  file_ = &file;
  *damaged_count = 0;
  uint64_t most_listed = 0;
  ENGINE_RACE_RETURN_IF_ERROR(ReadMostListed(&most_listed));
  std::vector<uint64_t> entry_counts(file_count_);
  const auto take = [&](const SegmentEntry& entry, uint64_t number) {
    ++entry_counts[PlaceOf(number).file];
    return TakeEntry(entry, number, most_listed, beside_writer, damaged_count);
  };
  size_t count = kEntriesAtOnce;
  for (uint64_t number = 0; count == kEntriesAtOnce; number += count) {
    ENGINE_RACE_RETURN_IF_ERROR(ReadEntries(number, kEntriesAtOnce, &count, take));
  }
  flushed_count_ = 0;
  for (uint32_t i = 0; i < file_count_; ++i) {
    next_[i] = states_[i].size();
    lacks_entries_ = lacks_entries_ || entry_counts[i] < states_[i].size();
  }
  return Status::Ok();
}

Status SegmentTable::TakeEntry(const SegmentEntry& entry, uint64_t number, uint64_t most_listed,
                               bool beside_writer, uint64_t* damaged_count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const SegmentPlace place = PlaceOf(number);
  // A place that its device does not have is none of this store's.
  if (!IsSound(entry, number)) {
    ++*damaged_count;
    return Status::Ok();
  }
  if (entry.bucket == format::kNoBucket) {
    Note(place, entry.index == format::kGivenBack ? State::kNone : State::kGiven);
    return Status::Ok();
  }
  if (lists_.LengthWith(entry.bucket, entry.index) > most_listed) {
    ++*damaged_count;
    return Status::Ok();
  }
  SegmentPlace other;
  if (!beside_writer && Find(entry.bucket, entry.index, &other)) {
    return Status::Corruption(file_->name() + ": entries " + std::to_string(NumberOf(other)) +
                              " and " + std::to_string(number) + " are of one segment");
  }
  lists_.Lengthen(entry.bucket, entry.index + uint64_t{1});
  Note(place, State::kGiven);
  lists_.Set(entry.bucket, entry.index, place);
  return Status::Ok();
}

// A bucket's rows may move to any place of its files. So all of their entries are looked at, where
// few calls suffice: a page has those of 256 rows.
Status SegmentTable::Reload(uint32_t bucket, OpenFn open) {
  uint64_t most_listed = 0;
  ENGINE_RACE_RETURN_IF_ERROR(ReadMostListed(&most_listed));
  std::vector<std::pair<uint64_t, SegmentPlace>> found;
  uint64_t end = 0;
  for (const Path& path : paths_) {
    const uint32_t file = FileOf(path, bucket);
    const size_t found_before = found.size();
    size_t count = kPage;
    for (uint64_t page = 0; count == kPage; ++page) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadEntries((page * file_count_ + file) * kPage, kPage, &count,
                                              [&](const SegmentEntry& entry, uint64_t number) {
                                                if (entry.bucket != bucket ||
                                                    !IsSound(entry, number))
                                                  return Status::Ok();
                                                found.emplace_back(entry.index, PlaceOf(number));
                                                end = std::max(end, entry.index + uint64_t{1});
                                                return Status::Ok();
                                              }));
    }
    if (found.size() != found_before) ENGINE_RACE_RETURN_IF_ERROR(open(file));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // The lists of other buckets may be of an earlier moment.
  if (end > most_listed) {
    return Status::Corruption(file_->name() + ": bucket " + std::to_string(bucket) +
                              " has an impossible segment");
  }
  // Readers find either place of a row meanwhile, or none.
  std::vector<const SegmentPlace*> places(std::max(end, SegmentEnd(bucket)));
  for (const auto& [index, place] : found) places[index] = &place;
  lists_.Lengthen(bucket, places.size());
  for (uint64_t index = 0; index < places.size(); ++index) {
    if (places[index] == nullptr) {
      lists_.Clear(bucket, index);
    } else {
      lists_.Set(bucket, index, *places[index]);
    }
  }
  return Status::Ok();
}

// Whether the entry may be one of this store.
bool SegmentTable::IsSound(const SegmentEntry& entry, uint64_t number) const {
  const SegmentPlace place = PlaceOf(number);
  const bool is_of_none = entry.bucket == format::kNoBucket;
  return NumberOf(place) == number && place.place < CapacityOf(place.file) &&
         (is_of_none ? entry.index <= format::kGivenBack
                     : entry.bucket < geometry_.bucket_count &&
                           entry.index < format::kMaxSegmentsPerBucket) &&
         entry.check == EntryOf(entry.bucket, entry.index, number).check;
}

}  // namespace engine_race
