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
constexpr uint32_t kBucketsAtOnce = 128;      // whose rows are read together
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

// With zeros behind the end of the file: it may end in a place, or be shorter after a power loss.
Status ReadPadded(const io::File& file, void* buffer, size_t size, uint64_t offset) {
  size_t read_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(file.ReadSome(buffer, size, offset, &read_bytes));
  std::memset(static_cast<char*>(buffer) + read_bytes, 0, size - read_bytes);
  return Status::Ok();
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
      counts_{files.counts},
      keys_{files.staged_keys, geometry_.group_bytes(LaneKind::kKeys),
            geometry_.record_bytes(LaneKind::kKeys)},
      values_{files.staged_values, geometry_.group_bytes(LaneKind::kValues),
              geometry_.record_bytes(LaneKind::kValues)},
      group_buffers_(LargerGroupBytes(geometry_)) {}

void Staging::Start(StagingMode mode, uint64_t memory_limit_bytes, const LogFn& log,
                    const Placement& placement) {
  ENGINE_RACE_ASSERT(!mapped_);
  placement_ = placement;
  places_.resize(geometry_.bucket_count);
  populated_.resize(geometry_.bucket_count);
  if (mode == StagingMode::kWritten || !CanBeMapped(memory_limit_bytes, log)) return;
  const auto map = [](Area* area, uint64_t size_bytes) {
    return SharedMapping::Map(area->file.fd(), size_bytes, &area->mapping);
  };
  Status mapped = map(&counts_, geometry_.staging_counts_bytes());
  if (mapped.ok()) mapped = map(&keys_, geometry_.staging_keys_bytes());
  if (mapped.ok()) mapped = map(&values_, geometry_.staging_values_bytes());
  mapped_ = mapped.ok();
  if (mapped_) {
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
  // Without a file of rows one thread decodes all counts.
  const bool has_rows = files_.rows.valid();
  const uint32_t at_once = has_rows ? kBucketsAtOnce : geometry_.bucket_count;
  if (has_rows) sys::AwaitPrefetched(files_.rows.fd());
  return ForEachNumber((geometry_.bucket_count + at_once - 1) / at_once, [&](uint32_t part) {
    const uint32_t first = part * at_once;
    std::vector<BucketRows> rows(std::min(at_once, geometry_.bucket_count - first));
    ENGINE_RACE_RETURN_IF_ERROR(ReadRows(files_, first, rows));
    for (uint32_t i = 0; i < rows.size(); ++i) {
      BucketState& state = (*states)[first + i];
      state = DecodeCounts(files_.identity.seed_id(), first + i, geometry_, lines[first + i],
                           std::move(rows[i].table));
      state.damaged = state.damaged || rows[i].damaged;
    }
    return Status::Ok();
  });
}

Staging::Place Staging::PlaceOf(LaneKind kind, uint32_t bucket, uint32_t number) {
  const bool values = kind == LaneKind::kValues;
  Populated& populated = values ? populated_[bucket].values : populated_[bucket].keys;
  PlaceBytes& bytes = values ? places_[bucket].values[number] : places_[bucket].keys[number];
  const uint64_t offset = geometry_.PlaceOffset(kind, bucket, number);
  return {AreaOf(kind), populated, bytes, offset, bucket, number};
}

Status Staging::ReservePlace(LaneKind kind, uint32_t bucket, uint32_t place) {
  if (!mapped_) return Status::Ok();
  return Reserve(PlaceOf(kind, bucket, place), 0, geometry_.group_bytes(kind));
}

// Populates the pages of a place from `offset` on, where the next record goes. The kernel may have
// taken away pages that the place had populated before: one call for the whole group tries them
// again. The number of other pages doubles while the group fills. So there are few calls, and yet a
// group that stays small populates few pages, and reserves little more. Nor does one that goes on
// in a place that was given back. Where pages are placed, each call also changes the thread's
// policy. So one call populates the whole group.
Status Staging::PopulateAt(const Place& place, uint64_t offset, uint64_t* end_bytes) {
  const Area& area = place.area;
  PlaceBytes& bytes = place.bytes;
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  const bool goes_on = bytes.reserved_end != 0 && bytes.reserved_begin <= begin;
  const uint64_t first = goes_on ? bytes.reserved_begin : begin;
  const uint64_t wanted =
      placement_.anywhere()
          ? std::max({2 * offset - first, offset + area.record_bytes, uint64_t{bytes.reached}})
          : area.group_bytes;
  const uint64_t end = std::min(area.group_bytes, RoundUp(wanted, kPageBytes));
  const uint64_t first_end = std::min(first + kFirstStepBytes, area.group_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(Reserve(place, begin, std::max(end, first_end)));
  ENGINE_RACE_RETURN_IF_ERROR(Populate(area, place.bucket, place.offset + begin, end - begin));
  ENGINE_RACE_ASSERT(begin <= offset && offset < end && end <= area.group_bytes);
  bytes.reached = static_cast<uint32_t>(end);
  *end_bytes = end;
  return Status::Ok();
}

// *to is where the record is to be stored. Populates pages before the first record in them.
Status Staging::PrepareStore(const Place& place, uint64_t index, char** to) {
  Populated& populated = place.populated;
  const uint64_t record_bytes = place.area.record_bytes;
  const uint64_t offset = index * record_bytes;
  if (index == 0 || populated.place != place.number || index >= populated.end) [[unlikely]] {
    uint64_t end_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(PopulateAt(place, offset, &end_bytes));
    populated = {place.number, static_cast<uint32_t>(end_bytes / record_bytes)};
  }
  ENGINE_RACE_ASSERT(populated.place == place.number && index < populated.end);
  ENGINE_RACE_ASSERT(offset + record_bytes <=
                     std::min(place.bytes.reserved_end, place.bytes.reached));
  *to = place.area.mapping.data() + place.offset + offset;
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
Status Staging::WriteRecord(const Place& place, uint64_t index, std::string_view record) const {
  const uint64_t offset = index * place.area.record_bytes;
  const uint64_t end = offset + record.size();
  if (placement_.anywhere() || end <= place.bytes.reached) {
    return WriteBelowLimit(place.area.file, record, place.offset + offset);
  }
  const PolicyScope scope(placement_.OnOneNode(place.bucket));
  ENGINE_RACE_RETURN_IF_ERROR(WriteBelowLimit(place.area.file, record, place.offset + offset));
  place.bytes.reached = static_cast<uint32_t>(RoundUp(end, kPageBytes));
  return Status::Ok();
}

Status Staging::StageValue(uint32_t bucket, uint32_t place_number, uint64_t index,
                           const char* value) {
  const std::string_view record(value == nullptr ? zeros.data() : value, geometry_.value_bytes());
  const Place place = PlaceOf(LaneKind::kValues, bucket, place_number);
  ENGINE_RACE_ASSERT(HasCounts() && index < geometry_.values_per_group());
  if (!mapped_) {
    ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(LargestFileBytes(geometry_)));
    return WriteRecord(place, index, record);
  }
  char* to = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(PrepareStore(place, index, &to));
  if (IsStreamed(geometry_.value_bytes())) {
    StreamTo(to, record.data(), record.size());
  } else {
    std::memcpy(to, record.data(), record.size());
  }
  return Status::Ok();
}

Status Staging::StageKey(uint32_t bucket, uint32_t place_number, uint64_t index,
                         const format::KeyEntry& entry) {
  const Place place = PlaceOf(LaneKind::kKeys, bucket, place_number);
  ENGINE_RACE_ASSERT(HasCounts() && index < geometry_.keys_per_group());
  if (!mapped_) {
    return WriteRecord(place, index, {reinterpret_cast<const char*>(&entry), sizeof(entry)});
  }
  char* to = nullptr;
  ENGINE_RACE_RETURN_IF_ERROR(PrepareStore(place, index, &to));
  std::memcpy(to, &entry, sizeof(entry));
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

// Through the mapping an error of the device is a SIGBUS, and so is a hole on a full tmpfs. The
// kernel answers with EFAULT instead. So values are mapped where it alone reads them, in whole
// blocks. The pages that the opening has found of a group are not populated.
Status Staging::ReadFull(uint32_t bucket, const FullGroup& full, bool by_pread,
                         RegionPool::Lease* buffer, const char** group) {
  const Place place = PlaceOf(full.kind, bucket, full.place);
  const bool is_populated = place.bytes.reached != 0 && place.bytes.reserved_begin == 0;
  if (mapped_ && !by_pread && full.kind == LaneKind::kValues && is_populated &&
      geometry_.layout.is_aligned()) {
    *group = place.area.mapping.data() + place.offset;
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(group_buffers_.Take(placement_, buffer));
  *group = buffer->data();
  return ReadPadded(place.area.file, buffer->data(), place.area.group_bytes, place.offset);
}

bool Staging::HasPlace(LaneKind kind, uint32_t places_word, uint64_t sequence) const {
  const uint32_t place_count =
      kind == LaneKind::kValues ? format::kValuePlaces : format::kKeyPlaces;
  return PlaceInWord(places_word, sequence / geometry_.group_records(kind)) < place_count;
}

Status Staging::Read(LaneKind kind, uint32_t bucket, uint32_t places_word, uint64_t sequence,
                     uint64_t count, void* buffer) const {
  const Area& area = AreaOf(kind);
  const uint64_t group_records = geometry_.group_records(kind);
  const uint64_t index = sequence % group_records;
  ENGINE_RACE_ASSERT(index + count <= group_records);
  const uint32_t place = PlaceInWord(places_word, sequence / group_records);
  return ReadPadded(area.file, buffer, count * area.record_bytes,
                    geometry_.PlaceOffset(kind, bucket, place) + index * area.record_bytes);
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
