// Reserves and gives back disk space, populates pages for mapped staging, and replaces entries.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/sys_mapping.h"
#include "engine_race/log/staging.h"

namespace engine_race {
namespace {

// The smallest blocks of file systems whose files are mapped.
constexpr uint64_t kSmallestBlockBytes = 512;

// Writes the same bytes once more, or zeros behind the end, so that they get their space, or the
// error that there is none.
Status WriteBack(const io::File& file, uint64_t offset, uint64_t size) {
  std::array<char, Staging::kPageBytes> page;
  for (uint64_t done = 0; done < size; done += Staging::kPageBytes) {
    size_t read_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        file.ReadSome(page.data(), Staging::kPageBytes, offset + done, &read_bytes));
    std::fill(page.begin() + static_cast<ptrdiff_t>(read_bytes), page.end(), '\0');
    ENGINE_RACE_RETURN_IF_ERROR(file.Write(page.data(), Staging::kPageBytes, offset + done));
  }
  return Status::Ok();
}

// Reads the pages, so that they enter the page cache now.
Status ReadIn(const io::File& file, uint64_t offset, uint64_t size) {
  std::array<char, Staging::kPageBytes> page;
  for (uint64_t done = 0; done < size; done += Staging::kPageBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(page.data(), Staging::kPageBytes, offset + done));
  }
  return Status::Ok();
}

}  // namespace

Status Staging::ReserveRange(const io::File& file, uint64_t offset, uint64_t size) {
  ENGINE_RACE_RETURN_IF_ERROR(sys::UnshareRange(file.fd(), offset, size));
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(file.Reserve(/*keep_size=*/false, offset, size, &supported));
  return supported ? Status::Ok() : WriteBack(file, offset, size);
}

Status Staging::ReserveCountsFirst() {
  const std::lock_guard<std::mutex> lock(reserve_mutex_);
  // Relaxed: stores to it happen under this mutex.
  if (counts_reserved_.load(std::memory_order_relaxed)) return Status::Ok();
  // On tmpfs pages enter the page cache by being reserved.
  const PolicyScope scope(placement_);
  const uint64_t size_bytes = geometry_.staging_counts_bytes();
  ENGINE_RACE_RETURN_IF_ERROR(sys::UnshareRange(counts_.file.fd(), 0, size_bytes));
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(counts_.file.Reserve(/*keep_size=*/false, 0, size_bytes, &supported));
  if (!supported) ENGINE_RACE_RETURN_IF_ERROR(TouchCounts());
  bool populated = false;
  const Status status = sys::PopulateForStores(counts_.mapping.data(), size_bytes, &populated);
  if (!status.ok()) {
    ENGINE_RACE_RETURN_IF_ERROR(TouchCounts());
    return status;
  }
  // Release pairs with the acquire in HasCounts.
  counts_reserved_.store(true, std::memory_order_release);
  return Status::Ok();
}

// Gives the counts their space, or returns why there is none. Writes one word of a line again in
// every block, however small the file system's blocks are. It is the one that counts nothing, and
// is not published before the counts have their space. So no word can be reverted.
Status Staging::TouchCounts() const {
  for (uint64_t block = 0; block < geometry_.staging_counts_bytes(); block += kSmallestBlockBytes) {
    const uint64_t offset = block + offsetof(format::BucketCounts, clean_at);
    uint64_t word = 0;
    ENGINE_RACE_RETURN_IF_ERROR(counts_.file.Read(&word, sizeof(word), offset));
    ENGINE_RACE_RETURN_IF_ERROR(counts_.file.Write(&word, sizeof(word), offset));
  }
  return Status::Ok();
}

void Staging::GiveBack(uint32_t bucket) noexcept {
  constexpr uint64_t kBase = format::kBasePlaces;
  uint64_t bytes = 0;
  const auto give_back = [&](const Area& area, uint64_t offset, std::span<PlaceBytes> places) {
    bool supported = false;
    const Status punched = Guarded([&] {
      return area.file.Punch(offset, offset + places.size() * area.group_bytes, &supported);
    });
    // A punch that failed may have given back some of it.
    if (punched.ok() && !supported) return;
    for (PlaceBytes& place : places) {
      bytes += place.reserved_end - place.reserved_begin;
      place = PlaceBytes();
    }
  };
  PlacesOfBucket& places = places_[bucket];
  const std::span values(places.values);
  give_back(keys_, geometry_.KeyPlaceOffset(bucket, 0), places.keys);
  give_back(values_, geometry_.ValuePlaceOffset(bucket, 0), values.first(kBase));
  give_back(values_, geometry_.ValuePlaceOffset(bucket, kBase), values.subspan(kBase));
  populated_[bucket] = PopulatedPlaces();
  // Relaxed: a statistic.
  reserved_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

Status Staging::ClearKeys(uint32_t bucket, uint32_t place, uint64_t count) const {
  ENGINE_RACE_ASSERT(count <= geometry_.keys_per_group());
  const std::vector<format::KeyEntry> none(count);
  return files_.staged_keys.Write(none.data(), count * sizeof(format::KeyEntry),
                                  geometry_.KeyPlaceOffset(bucket, place));
}

Status Staging::ReplaceKeysFrom(uint32_t bucket, uint64_t record_count,
                                const format::KeyEntry* instead, bool* has_found) const {
  const io::File& file = files_.staged_keys;
  std::array<format::KeyEntry, kMaxKeyGroupBytes / sizeof(format::KeyEntry)> entries;
  const uint64_t count = geometry_.keys_per_group();
  for (uint32_t place = 0; place < format::kKeyPlaces; ++place) {
    const uint64_t offset = geometry_.KeyPlaceOffset(bucket, place);
    if (!file.MayHoldData(offset, offset + geometry_.key_group_bytes)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(entries.data(), geometry_.key_group_bytes, offset));
    uint64_t begin = count;
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (entries[i] == format::KeyEntry{} || entries[i].sequence() < record_count) continue;
      if (instead != nullptr) entries[i] = *instead;
      begin = std::min(begin, i);
      end = i + 1;
    }
    if (end == 0) continue;
    *has_found = true;
    if (instead == nullptr) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(file.Write(&entries[begin], (end - begin) * sizeof(entries[0]),
                                           offset + begin * sizeof(entries[0])));
  }
  return Status::Ok();
}

// Makes sure that these bytes of a place have their space, and those between them and what has it.
Status Staging::Reserve(const Place& place, uint64_t begin, uint64_t end) {
  PlaceBytes& bytes = place.bytes;
  ENGINE_RACE_ASSERT(HasCounts() && begin <= end && end <= place.area.group_bytes);
  const uint64_t had = bytes.reserved_end - bytes.reserved_begin;
  if (had != 0) {
    begin = std::min<uint64_t>(begin, bytes.reserved_begin);
    end = std::max<uint64_t>(end, bytes.reserved_end);
    if (end - begin == had) return Status::Ok();
  }
  // On tmpfs pages enter the page cache by being reserved.
  const PolicyScope scope(placement_.OnOneNode(place.bucket));
  const uint64_t from = had != 0 && begin == bytes.reserved_begin ? bytes.reserved_end : begin;
  ENGINE_RACE_RETURN_IF_ERROR(ReserveRange(place.area.file, place.offset + from, end - from));
  bytes.reserved_begin = static_cast<uint32_t>(begin);
  bytes.reserved_end = static_cast<uint32_t>(end);
  // Relaxed: a statistic.
  reserved_bytes_.fetch_add(end - begin - had, std::memory_order_relaxed);
  return Status::Ok();
}

Status Staging::Populate(const Area& area, uint32_t bucket, uint64_t offset, uint64_t size) const {
  const PolicyScope scope(placement_.OnOneNode(bucket));
  bool populated = false;
  Status status = sys::PopulateForStores(area.mapping.data() + offset, size, &populated);
  if (status.ok()) [[likely]] {
    // Without populated pages the first store would place them, after the scope has ended.
    return populated || placement_.anywhere() ? status : ReadIn(area.file, offset, size);
  }
  // The SIGBUS that a store would have met names no reason; pwrite does.
  ENGINE_RACE_RETURN_IF_ERROR(WriteBack(area.file, offset, size));
  return status;
}

}  // namespace engine_race
