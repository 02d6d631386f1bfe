#include "engine_race/log/staging.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/base/sys_mapping.h"
#include "engine_race/base/sys_prefetch.h"
#include "engine_race/base/sys_pwrite.h"
#include "engine_race/log/entry_codec.h"
#include "engine_race/log/parallel_work.h"
#include "engine_race/log/row_file.h"

namespace engine_race {
namespace {

// The first step in which a place that fills is reserved.
constexpr uint64_t kFirstStepBytes = uint64_t{8} << 10;
constexpr size_t kCacheLineBytes = 64;
// Of a value that goes past the caches. A smaller one is sooner copied than waited for.
constexpr uint32_t kLeastStreamedBytes = 4096;
constexpr uint32_t kMaxPrefetchBytes = 4096;  // of a value: the rest follows as it is copied
// Mapped staging usually takes at most one part in so many of what the process may use.
constexpr uint64_t kMemoryShare = 2;

// Never written. Not constant, so that it takes no room in the library.
std::array<char, kMaxValueBytes> zeros;

uint64_t WordOffset(uint32_t bucket, format::WordKind kind) {
  return bucket * sizeof(format::BucketCounts) + static_cast<size_t>(kind) * sizeof(uint64_t);
}

uint64_t LargerGroupBytes(const Geometry& geometry) {
  return std::max(geometry.value_group_bytes, geometry.key_group_bytes);
}

uint64_t LargestFileBytes(const Geometry& geometry) {
  return std::max({geometry.staging_values_bytes(), geometry.staging_keys_bytes(),
                   geometry.staging_counts_bytes()});
}

// Writes below the limit on file sizes, which the caller has checked.
Status WriteBelowLimit(const io::File& file, std::string_view bytes, uint64_t offset) {
  Status written = sys::PwriteBelowLimit(file.fd(), bytes.data(), bytes.size(), offset);
  if (written.ok()) [[likely]] {
    return written;
  }
  return written.Prefixed(file.name() + ": ");
}

bool IsStreamed(uint32_t value_bytes) {
  return value_bytes >= kLeastStreamedBytes && value_bytes % kCacheLineBytes == 0;
}

// Copies whole cache lines past the caches.
void StreamTo(char* to, const char* from, size_t size) {
  for (size_t done = 0; done < size; done += kCacheLineBytes) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + done);
    auto* const target = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

}  // namespace

Staging::Staging(const StoreFiles& files)
    : files_(files),
      geometry_(files.identity.geometry),
      counts_{files.counts, 0, {}},
      keys_{files.staged_keys, geometry_.key_group_bytes, {}},
      values_{files.staged_values, geometry_.value_group_bytes, {}},
      group_buffers_(LargerGroupBytes(geometry_)) {}

void Staging::Start(StagingMode mode, uint64_t memory_limit_bytes, const LogFn& log,
                    const Placement& placement) {
  ENGINE_RACE_ASSERT(!mapped_);
  placement_ = placement;
  places_.resize(geometry_.bucket_count);
  if (mode == StagingMode::kWritten || !CanBeMapped(memory_limit_bytes, log)) return;
  const auto map = [](Area* area, uint64_t size_bytes) {
    return SharedMapping::Map(area->file.fd(), size_bytes, &area->mapping);
  };
  Status mapped = map(&counts_, geometry_.staging_counts_bytes());
  if (mapped.ok()) mapped = map(&keys_, geometry_.staging_keys_bytes());
  if (mapped.ok()) mapped = map(&values_, geometry_.staging_values_bytes());
  mapped_ = mapped.ok();
  if (mapped_) {
    populated_.resize(geometry_.bucket_count);
    // Read-around would zero megabytes of other buckets' pages at the first store into a page. It
    // would also place them by the policy of that page's bucket.
    for (const Area* area : {&keys_, &values_}) {
      sys::AdviseNoReadAhead(area->file.fd(), area->mapping.data(), area->mapping.size());
    }
    return;
  }
  for (Area* area : {&counts_, &keys_, &values_}) area->mapping.Reset();
  Log(log, LogLevel::kWarning, "records are staged with pwrite: " + mapped.ToString());
}

// Where the kernel must take pages of the mapping away while they fill, each store into one waits
// for the disk to bring it back.
bool Staging::CanBeMapped(uint64_t memory_limit_bytes, const LogFn& log) const {
  const uint64_t usual_bytes = geometry_.usual_staging_bytes();
  if (usual_bytes > memory_limit_bytes / kMemoryShare) {
    Log(log, LogLevel::kInfo,
        "records are staged with pwrite: the places of all buckets take " +
            std::to_string(usual_bytes) + " bytes, the process may use " +
            std::to_string(memory_limit_bytes));
    return false;
  }
  for (const Area* area : {&counts_, &keys_, &values_}) {
    bool keep = false;
    uint64_t type_magic = 0;
    const Status known = sys::MappedStoresKeepSpace(area->file.fd(), &keep, &type_magic);
    if (known.ok() && keep) continue;
    std::array<char, 32> type;
    std::snprintf(type.data(), type.size(), "0x%llx", static_cast<unsigned long long>(type_magic));
    Log(log, LogLevel::kInfo,
        "records are staged with pwrite: " +
            (known.ok() ? std::string("file systems of type ") + type.data() +
                              " do not promise that a store into a mapping has its space"
                        : known.ToString()));
    return false;
  }
  return true;
}

Status Staging::ReadCounts(std::vector<BucketState>* states) const {
  std::vector<format::BucketCounts> lines(geometry_.bucket_count);
  ENGINE_RACE_RETURN_IF_ERROR(
      files_.counts.Read(lines.data(), lines.size() * sizeof(lines.front()), 0));
  states->assign(geometry_.bucket_count, BucketState());
  const auto read = [&](uint32_t bucket) {
    SlotTable table;
    bool damaged = false;
    ENGINE_RACE_RETURN_IF_ERROR(ReadRows(files_, bucket, &table, &damaged));
    BucketState& state = (*states)[bucket];
    state =
        DecodeCounts(files_.identity.seed_id(), bucket, geometry_, lines[bucket], std::move(table));
    state.damaged = state.damaged || damaged;
    return Status::Ok();
  };
  if (files_.rows.valid()) {
    sys::AwaitPrefetched(files_.rows.fd());
    // The rows of each bucket take a read of their own.
    return ForEachNumber(geometry_.bucket_count, read);
  }
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    ENGINE_RACE_RETURN_IF_ERROR(read(bucket));
  }
  return Status::Ok();
}

// Populates the pages of a place from `offset` on, where the next record goes. The kernel may have
// taken away pages that the place had populated before: one call for the whole group tries them
// again. The number of other pages doubles while the group fills. So there are few calls, and yet a
// group that stays small populates few pages, and reserves little more. Nor does one that goes on
// in a place that was given back. Where pages are placed, each call also changes the thread's
// policy. So one call populates the whole group.
Status Staging::PopulateAt(const Area& area, uint32_t bucket, uint64_t place_offset,
                           uint64_t offset, uint64_t record_bytes, PlaceBytes* bytes,
                           uint64_t* end_bytes) {
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  const bool goes_on = bytes->reserved_end != 0 && bytes->reserved_begin <= begin;
  const uint64_t first = goes_on ? bytes->reserved_begin : begin;
  const uint64_t wanted =
      placement_.anywhere()
          ? std::max({2 * offset - first, offset + record_bytes, uint64_t{bytes->reached}})
          : area.group_bytes;
  const uint64_t end = std::min(area.group_bytes, RoundUp(wanted, kPageBytes));
  const uint64_t first_end = std::min(first + kFirstStepBytes, area.group_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      Reserve(area, bucket, place_offset, begin, std::max(end, first_end), bytes));
  ENGINE_RACE_RETURN_IF_ERROR(Populate(area, bucket, place_offset + begin, end - begin));
  ENGINE_RACE_ASSERT(begin <= offset && offset < end && end <= area.group_bytes);
  bytes->reached = static_cast<uint32_t>(end);
  *end_bytes = end;
  return Status::Ok();
}

// *to is where the record is to be stored.
Status Staging::PrepareStore(const Area& area, uint32_t bucket, uint64_t place_offset,
                             uint32_t place, uint64_t index, uint64_t record_bytes,
                             Populated* populated, PlaceBytes* bytes, char** to) {
  const uint64_t offset = index * record_bytes;
  if (index == 0 || populated->place != place || index >= populated->end) [[unlikely]] {
    uint64_t end_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(
        PopulateAt(area, bucket, place_offset, offset, record_bytes, bytes, &end_bytes));
    *populated = {place, static_cast<uint32_t>(end_bytes / record_bytes)};
  }
  ENGINE_RACE_ASSERT(populated->place == place && index < populated->end);
  ENGINE_RACE_ASSERT(offset + record_bytes <= std::min(bytes->reserved_end, bytes->reached));
  *to = area.mapping.data() + place_offset + offset;
  return Status::Ok();
}

// Orders streamed values before the store that counts them.
void Staging::Fence() { _mm_sfence(); }

void Staging::Prefetch(uint32_t bucket, uint32_t value_place, uint64_t value_index,
                       uint32_t key_place, uint64_t key_index) const {
  if (!mapped_) return;
  __builtin_prefetch(&populated_[bucket], /*rw=*/1);
  __builtin_prefetch(keys_.mapping.data() + geometry_.KeyPlaceOffset(bucket, key_place) +
                         key_index * sizeof(format::KeyEntry),
                     /*rw=*/1);
  __builtin_prefetch(counts_.mapping.data() + bucket * sizeof(format::BucketCounts), /*rw=*/1);
  const char* const value = values_.mapping.data() +
                            geometry_.ValuePlaceOffset(bucket, value_place) +
                            value_index * geometry_.slot_bytes();
  if (IsStreamed(geometry_.value_bytes())) {
    // The end of the slot, for its page's address alone.
    __builtin_prefetch(value + geometry_.slot_bytes() - 1);
    return;
  }
  const uint32_t size = std::min(geometry_.value_bytes(), kMaxPrefetchBytes);
  for (uint32_t line = 0; line < size; line += kCacheLineBytes) {
    __builtin_prefetch(value + line, /*rw=*/1);
  }
}

// Writes one record of a group. The page cache takes a page in when it is first written to.
Status Staging::WriteRecord(const Area& area, uint32_t bucket, uint64_t place_offset,
                            uint64_t offset, std::string_view record, PlaceBytes* bytes) const {
  const uint64_t end = offset + record.size();
  if (placement_.anywhere() || end <= bytes->reached) {
    return WriteBelowLimit(area.file, record, place_offset + offset);
  }
  const PolicyScope scope(placement_.OnOneNode(bucket));
  ENGINE_RACE_RETURN_IF_ERROR(WriteBelowLimit(area.file, record, place_offset + offset));
  bytes->reached = static_cast<uint32_t>(RoundUp(end, kPageBytes));
  return Status::Ok();
}

Status Staging::StageValue(uint32_t bucket, uint32_t place, uint64_t index, const char* value) {
  const std::string_view record(value == nullptr ? zeros.data() : value, geometry_.value_bytes());
  const uint64_t offset = geometry_.ValuePlaceOffset(bucket, place);
  const uint64_t slot_bytes = geometry_.slot_bytes();
  ENGINE_RACE_ASSERT(HasCounts() && index < geometry_.values_per_group());
  if (!mapped_) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(LargestFileBytes(geometry_)));
    return WriteRecord(values_, bucket, offset, index * slot_bytes, record,
                       &places_[bucket].values[place]);
  }
  char* to = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(PrepareStore(values_, bucket, offset, place, index, slot_bytes,
                                           &populated_[bucket].values,
                                           &places_[bucket].values[place], &to));
  if (IsStreamed(geometry_.value_bytes())) {
    StreamTo(to, record.data(), record.size());
  } else {
    std::memcpy(to, record.data(), record.size());
  }
  return Status::Ok();
}

Status Staging::StageKey(uint32_t bucket, uint32_t place, uint64_t index,
                         const format::KeyEntry& entry) {
  const std::string_view record(reinterpret_cast<const char*>(&entry), sizeof(entry));
  const uint64_t offset = geometry_.KeyPlaceOffset(bucket, place);
  ENGINE_RACE_ASSERT(HasCounts() && index < geometry_.keys_per_group());
  if (!mapped_) {
    return WriteRecord(keys_, bucket, offset, index * sizeof(entry), record,
                       &places_[bucket].keys[place]);
  }
  char* to = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(PrepareStore(keys_, bucket, offset, place, index, sizeof(entry),
                                           &populated_[bucket].keys, &places_[bucket].keys[place],
                                           &to));
  std::memcpy(to, record.data(), record.size());
  return Status::Ok();
}

Status Staging::PublishWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const {
  return mapped_ ? PublishStaged(bucket, kind, payload) : WriteWord(bucket, kind, payload);
}

Status Staging::WriteWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const {
  ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(geometry_.staging_counts_bytes()));
  return WriteEncoded(bucket, kind, EncodeWordOf(bucket, kind, payload));
}

uint64_t Staging::EncodeWordOf(uint32_t bucket, format::WordKind kind, uint64_t payload) const {
  const uint32_t bits = PayloadBits(kind);
  return EncodeWord(files_.identity.seed_id(), bucket, kind, payload & ((uint64_t{1} << bits) - 1),
                    bits);
}

// The kernel copies an aligned word as one, and finishes a copy that it has begun before SIGKILL
// ends the process.
Status Staging::WriteEncoded(uint32_t bucket, format::WordKind kind, uint64_t word) const {
  return WriteBelowLimit(counts_.file, {reinterpret_cast<const char*>(&word), sizeof(word)},
                         WordOffset(bucket, kind));
}

Status Staging::PublishStaged(uint32_t bucket, format::WordKind kind, uint64_t payload) const {
  static_assert(offsetof(format::BucketCounts, key_places) ==
                    static_cast<size_t>(format::WordKind::kKeyPlaces) * sizeof(uint64_t),
                "a word's kind is its place in the line");
  const uint64_t word = EncodeWordOf(bucket, kind, payload);
  if (!mapped_) return WriteEncoded(bucket, kind, word);
  // Release pairs with the next opening's read of the file: an opening that sees a count sees the
  // bytes that it counts.
  char* const to = counts_.mapping.data() + WordOffset(bucket, kind);
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to))
      .store(word, std::memory_order_release);
  return Status::Ok();
}

Status Staging::SecureCount(uint32_t bucket, uint64_t record_count) const {
  if (mapped_) return Status::Ok();
  return PublishWord(bucket, format::WordKind::kRecords, record_count);
}

Status Staging::WriteLine(uint32_t bucket, const BucketState& state, format::WordKind end) const {
  const format::BucketCounts line = EncodeCounts(files_.identity.seed_id(), bucket, state);
  return files_.counts.Write(&line, WordOffset(0, end), WordOffset(bucket, {}));
}

// A write reads parts of blocks itself. An error must be no SIGBUS there. The pages that the
// opening has found of a group are not populated.
Status Staging::FullValues(uint32_t bucket, uint32_t place, bool by_pread,
                           RegionPool::Lease* buffer, const char** group) {
  const uint64_t offset = geometry_.ValuePlaceOffset(bucket, place);
  const PlaceBytes& bytes = places_[bucket].values[place];
  const bool may_be_mapped =
      !by_pread && geometry_.layout.is_aligned() && bytes.reached != 0 && bytes.reserved_begin == 0;
  return FullGroup(values_, may_be_mapped, offset, buffer, group);
}

// A page in which this opening has staged nothing may be a hole. Reading a hole through the mapping
// is a SIGBUS on a full tmpfs. A group of one page has no hole: its last entry was staged just now,
// unless the opening has found it.
Status Staging::FullKeys(uint32_t bucket, uint32_t place, RegionPool::Lease* buffer,
                         const char** group) {
  const bool may_be_mapped =
      keys_.group_bytes <= kPageBytes && places_[bucket].keys[place].reached != 0;
  return FullGroup(keys_, may_be_mapped, geometry_.KeyPlaceOffset(bucket, place), buffer, group);
}

Status Staging::FullGroup(const Area& area, bool may_be_mapped, uint64_t offset,
                          RegionPool::Lease* buffer, const char** group) {
  // For a write to the log: the kernel answers with EFAULT where reading the mapping fails.
  if (mapped_ && may_be_mapped) {
    *group = area.mapping.data() + offset;
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(group_buffers_.Take(placement_, buffer));
  *group = buffer->data();
  return area.file.Read(buffer->data(), area.group_bytes, offset);
}

Status Staging::ReadValues(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                           char* buffer) const {
  const uint64_t slot_bytes = geometry_.slot_bytes();
  return files_.staged_values.Read(buffer, count * slot_bytes,
                                   geometry_.ValuePlaceOffset(bucket, place) + index * slot_bytes);
}

Status Staging::ReadKeys(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                         format::KeyEntry* buffer) const {
  return files_.staged_keys.Read(
      buffer, count * sizeof(format::KeyEntry),
      geometry_.KeyPlaceOffset(bucket, place) + index * sizeof(format::KeyEntry));
}

void Staging::PrefetchKeys(uint32_t first_bucket, uint32_t bucket_count) const {
  const PolicyScope scope(placement_);
  const uint64_t bytes = geometry_.staged_key_bytes_per_bucket();
  sys::Prefetch(keys_.file.fd(), first_bucket * bytes, bucket_count * bytes);
}

void Staging::PrefetchValues(uint32_t bucket, uint32_t place, uint64_t count) const {
  const PolicyScope scope(placement_.OnOneNode(bucket));
  sys::Prefetch(values_.file.fd(), geometry_.ValuePlaceOffset(bucket, place),
                count * geometry_.slot_bytes());
}

uint64_t Staging::memory_bytes() const {
  // Relaxed: a statistic.
  return reserved_bytes_.load(std::memory_order_relaxed);
}

}  // namespace engine_race
