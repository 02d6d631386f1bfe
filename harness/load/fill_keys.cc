#include "harness/load/fill_keys.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/page_cache.h"
#include "harness/data/mix.h"

namespace engine_race::harness {

namespace {

// Direct I/O is of whole pages.
constexpr uint64_t kPieceBytes = 1 << 20;

class NoListener : public AppendListener {
 public:
  Status Prepare(uint32_t) override { return Status::Ok(); }
  void OnAppend(uint32_t, const KeyRecord&) noexcept override {}
};

// The least number of records that fills whole groups, of entries and of values.
uint64_t WholeGroups(const Geometry& geometry) {
  return std::max(geometry.values_per_group(), geometry.keys_per_group());
}

Status WriteBucket(const BucketLog& log, uint32_t bucket, uint64_t count, uint64_t zero_hash,
                   const RecordFn& record_of, const Region& piece) {
  const EntryCodec codec = log.codec(bucket);
  auto* const entries = reinterpret_cast<format::KeyEntry*>(piece.data());
  const uint64_t per_piece = kPieceBytes / format::kKeyEntryBytes;
  for (uint64_t begin = 0; begin < count; begin += per_piece) {
    const uint64_t written = std::min(per_piece, count - begin);
    for (uint64_t i = 0; i < written; ++i) {
      KeyRecord record = record_of(bucket, static_cast<uint32_t>(begin + i));
      record.value_hash = record.tombstone ? 0 : zero_hash;
      entries[i] = SlotTable::EncodeAppended(codec, record, begin + i);
    }
    ENGINE_RACE_RETURN_IF_ERROR(log.slots().WriteKeys(bucket, begin, written, entries));
  }
  return Status::Ok();
}

Status WriteCounts(const std::string& dir, const std::vector<std::string>& paths,
                   const std::vector<uint64_t>& counts) {
  Options options;
  options.value_bytes = 0;  // the store's own
  options.paths = paths;
  StoreFiles files;
  ENGINE_RACE_RETURN_IF_ERROR(OpenStoreFilesToRead(dir, &files, options));
  const uint64_t seed_id = files.identity.seed_id();
  const uint32_t page_cache_id = PageCacheId(files);
  std::vector<format::BucketCounts> lines(counts.size());
  for (uint32_t bucket = 0; bucket < counts.size(); ++bucket) {
    BucketState state;
    state.record_count = counts[bucket];
    state.logged_value_watermark = counts[bucket];
    state.logged_key_watermark = counts[bucket];
    state.page_cache_id = page_cache_id;
    lines[bucket] = EncodeCounts(seed_id, bucket, state);
  }
  UniqueFd fd;
  ENGINE_RACE_RETURN_IF_ERROR(
      sys::OpenAt(AT_FDCWD, dir + "/" + format::kStagingCountsName, O_WRONLY, 0, &fd));
  return sys::PwriteFull(fd.get(), lines.data(), lines.size() * sizeof(lines[0]), 0);
}

}  // namespace

uint64_t FilledKey(const Geometry& geometry, uint32_t bucket, uint64_t number, uint64_t seed) {
  // Buckets of other key ranges have no power of two of keys.
  ENGINE_RACE_ASSERT(geometry.keys().HasAllKeys());
  // A permutation of the words of `bits` bits, because each step is invertible.
  const uint32_t bits = 64 - geometry.bucket_bits();
  const uint64_t mask = ~uint64_t{0} >> (64 - bits);
  uint64_t x = (number + (seed + bucket) * 0x9e3779b97f4a7c15) & mask;
  for (const uint64_t odd : {0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0xd6e8feb86659fd93}) {
    x = (x * odd) & mask;
    x ^= x >> (bits / 2 + 1);
  }
  return geometry.FirstKeyOf(bucket) + x;
}

std::vector<uint64_t> FilledCounts(uint32_t bucket_count, uint64_t key_count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const double mean = static_cast<double>(key_count) / bucket_count;
  std::normal_distribution<double> spread(mean, std::sqrt(mean));
  std::vector<uint64_t> counts(bucket_count);
  uint64_t left = key_count;
  for (uint32_t bucket = 0; bucket + 1 < bucket_count; ++bucket) {
    const double drawn = std::round(std::max(spread(random), 0.0));
    counts[bucket] = std::min(static_cast<uint64_t>(drawn), left);
    left -= counts[bucket];
  }
  counts.back() = left;
  // Spreads the surplus of the last bucket over all buckets.
  const uint64_t fair = key_count / bucket_count;
  for (uint32_t bucket = 0; counts.back() > fair + 1 && bucket_count > 1;
       bucket = (bucket + 1) % (bucket_count - 1)) {
    ++counts[bucket];
    --counts.back();
  }
  return counts;
}

Status WriteKeyLogs(const Options& options, const std::string& dir,
                    const std::vector<uint64_t>& counts, const RecordFn& record_of) {
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, false, &piece));
  {
    std::unique_ptr<BucketLog> log;
    ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, dir, &log));
    const Geometry& geometry = log->geometry();
    const std::vector<char> zeros(geometry.value_bytes());
    const uint64_t zero_hash = HashValue(zeros.data(), zeros.size());
    if (counts.size() != geometry.bucket_count) return Status::InvalidArgument("bucket count");
    for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
      if (counts[bucket] % WholeGroups(geometry) != 0) {
        return Status::InvalidArgument("part of a group");
      }
      ENGINE_RACE_RETURN_IF_ERROR(
          WriteBucket(*log, bucket, counts[bucket], zero_hash, record_of, piece));
    }
  }
  return WriteCounts(dir, options.paths, counts);
}

std::vector<uint64_t> FilledKeys(const Geometry& geometry, uint64_t key_count, uint64_t seed) {
  const std::vector<uint64_t> counts = FilledCounts(geometry.bucket_count, key_count, seed);
  std::vector<uint64_t> keys;
  keys.reserve(key_count);
  for (uint32_t bucket = 0; bucket < geometry.bucket_count; ++bucket) {
    const auto begin = static_cast<std::ptrdiff_t>(keys.size());
    for (uint64_t i = 0; i < counts[bucket]; ++i) {
      keys.push_back(FilledKey(geometry, bucket, i, seed));
    }
    std::sort(keys.begin() + begin, keys.end());
  }
  return keys;
}

Status FillKeyLogs(const Options& options, const std::string& dir, uint64_t key_count,
                   uint64_t seed) {
  const Geometry geometry = GeometryFrom(options);
  const std::vector<uint64_t> counts = FilledCounts(geometry.bucket_count, key_count, seed);
  if (!geometry.keys().HasAllKeys()) return Status::InvalidArgument("part of the keys");
  std::vector<uint64_t> whole = counts;
  for (uint64_t& count : whole) count -= count % WholeGroups(geometry);
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteKeyLogs(options, dir, whole, [&](uint32_t bucket, uint32_t slot) {
        return KeyRecord{.key = FilledKey(geometry, bucket, slot, seed)};
      }));
  const std::vector<char> zeros(geometry.value_bytes());
  std::unique_ptr<BucketLog> log;
  ENGINE_RACE_RETURN_IF_ERROR(BucketLog::Open(options, dir, &log));
  for (uint32_t bucket = 0; bucket < counts.size(); ++bucket) {
    for (uint64_t slot = whole[bucket]; slot < counts[bucket]; ++slot) {
      ENGINE_RACE_RETURN_IF_ERROR(
          log->Append(FilledKey(geometry, bucket, slot, seed), zeros.data()));
    }
  }
  return Status::Ok();
}

Status ReadEntries(BucketLog* log, uint32_t bucket, std::vector<format::KeyEntry>* entries) {
  entries->clear();
  NoListener listener;
  BucketCut cut;
  ENGINE_RACE_RETURN_IF_ERROR(
      log->reader().CutBucket(bucket, /*first_sequence=*/0, &listener, &cut));
  log->reader().DetachListener(bucket);
  Region piece;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kPieceBytes, false, &piece));
  const auto* const read = reinterpret_cast<const format::KeyEntry*>(piece.data());
  constexpr uint64_t kPieceEntries = kPieceBytes / sizeof(format::KeyEntry);
  for (uint64_t begin = 0; begin < cut.logged_key_watermark; begin += kPieceEntries) {
    const uint64_t count = std::min(kPieceEntries, cut.logged_key_watermark - begin);
    ENGINE_RACE_RETURN_IF_ERROR(
        log->slots().ReadKeys(bucket, begin, RoundUp(count, format::kPageEntries), piece.data()));
    entries->insert(entries->end(), read, read + count);
  }
  entries->insert(entries->end(), cut.staged_keys.begin(), cut.staged_keys.end());
  return Status::Ok();
}

namespace {

// New keys of a bucket have the numbers behind its own, and absent keys those from here on.
constexpr uint64_t kFirstAbsentNumber = uint64_t{1} << 33;
constexpr uint64_t kAbsentNumbers = uint64_t{1} << 40;

}  // namespace

IndexKeys::IndexKeys(const Options& options, uint64_t key_count, uint64_t seed)
    : geometry_(GeometryFrom(options)),
      key_count_(key_count),
      seed_(seed),
      counts_(FilledCounts(geometry_.bucket_count, key_count, seed)) {
  ENGINE_RACE_ASSERT(key_count > 0);
  ends_.resize(counts_.size());
  std::partial_sum(counts_.begin(), counts_.end(), ends_.begin());
  ENGINE_RACE_ASSERT(ends_.back() == key_count);
}

IndexKeys::Place IndexKeys::Present(uint64_t word) const {
  const uint64_t index = AsBelow(word, key_count_);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const auto bucket = static_cast<uint32_t>(end - ends_.begin());
  const uint64_t slot = index - (*end - counts_[bucket]);
  return {FilledKey(geometry_, bucket, slot, seed_), bucket, static_cast<uint32_t>(slot)};
}

uint64_t IndexKeys::AbsentKey(uint64_t word) const {
  const auto bucket = static_cast<uint32_t>(AsBelow(word, counts_.size()));
  const uint64_t number = kFirstAbsentNumber + AsBelow(Mix64(word), kAbsentNumbers);
  return FilledKey(geometry_, bucket, number, seed_);
}

uint64_t IndexKeys::New(uint64_t number) const {
  const auto bucket = static_cast<uint32_t>(number % counts_.size());
  return FilledKey(geometry_, bucket, counts_[bucket] + number / counts_.size(), seed_);
}

}  // namespace engine_race::harness
