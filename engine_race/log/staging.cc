#include "engine_race/log/staging.h"

#include <algorithm>
#include <cstddef>

namespace engine_race {
namespace {

constexpr uint64_t kClusterBytes = uint64_t{2} << 20;

uint32_t ClusterBuckets(const Geometry& geometry) {
  const uint64_t fit = kClusterBytes / geometry.base_value_bytes_per_bucket();
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, 1, geometry.bucket_count));
}

}  // namespace

format::BucketCounts EncodeCounts(uint64_t store_id, uint32_t bucket, const BucketState& state) {
  const auto word_of = [&](format::WordKind kind, uint64_t payload) {
    return EncodeWord(store_id, bucket, kind, payload, PayloadBits(kind));
  };
  format::BucketCounts line{};
  line.records = word_of(format::WordKind::kRecords, state.record_count);
  line.flushed_values = word_of(format::WordKind::kFlushedValues, state.flushed_value_count);
  line.flushed_keys = word_of(format::WordKind::kFlushedKeys, state.flushed_key_count);
  line.value_places = word_of(format::WordKind::kValuePlaces, state.value_places);
  line.key_places = word_of(format::WordKind::kKeyPlaces, state.key_places);
  line.synced = word_of(format::WordKind::kSynced, state.synced_count);
  line.page_cache = word_of(format::WordKind::kPageCache, state.page_cache_id);
  return line;
}

Staging::Staging(const StoreFiles& files)
    : files_(files),
      geometry_(files.identity.geometry),
      cluster_buckets_(ClusterBuckets(geometry_)),
      cluster_count_((geometry_.bucket_count + cluster_buckets_ - 1) / cluster_buckets_),
      reserved_(std::make_unique<std::atomic<bool>[]>(cluster_count_)) {}

Status Staging::Map() {
  ENGINE_RACE_RETURN_IF_ERROR(
      SharedMapping::Map(files_.counts.fd(), geometry_.staging_counts_bytes(), &counts_));
  ENGINE_RACE_RETURN_IF_ERROR(
      SharedMapping::Map(files_.staged_keys.fd(), geometry_.staging_keys_bytes(), &keys_));
  ENGINE_RACE_RETURN_IF_ERROR(
      SharedMapping::Map(files_.staged_values.fd(), geometry_.staging_values_bytes(), &values_));
  // The index will want all staged entries at once.
  sys::Prefetch(files_.staged_keys.fd(), geometry_.staging_keys_bytes());
  return Status::Ok();
}

Status Staging::ReadCounts(std::vector<BucketState>* states) const {
  std::vector<format::BucketCounts> lines(geometry_.bucket_count);
  ENGINE_RACE_RETURN_IF_ERROR(
      files_.counts.Read(lines.data(), lines.size() * sizeof(lines.front()), 0));
  states->clear();
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    states->push_back(Decode(bucket, lines[bucket]));
  }
  return Status::Ok();
}

BucketState Staging::Decode(uint32_t bucket, const format::BucketCounts& line) const {
  bool sound = true;
  const auto payload_of = [&](format::WordKind kind, uint64_t word) {
    uint64_t payload = 0;
    sound = DecodeWord(files_.identity.store_id, bucket, kind, word, PayloadBits(kind), &payload) &&
            sound;
    return payload;
  };
  BucketState state;
  state.record_count = payload_of(format::WordKind::kRecords, line.records);
  state.flushed_value_count = payload_of(format::WordKind::kFlushedValues, line.flushed_values);
  state.flushed_key_count = payload_of(format::WordKind::kFlushedKeys, line.flushed_keys);
  state.value_places =
      static_cast<uint32_t>(payload_of(format::WordKind::kValuePlaces, line.value_places));
  state.key_places =
      static_cast<uint32_t>(payload_of(format::WordKind::kKeyPlaces, line.key_places));
  state.synced_count = payload_of(format::WordKind::kSynced, line.synced);
  state.page_cache_id =
      static_cast<uint32_t>(payload_of(format::WordKind::kPageCache, line.page_cache));
  // That what is staged fits into the places is for the lanes to say.
  const auto fits = [&state](uint64_t flushed, uint64_t group) {
    return flushed % group == 0 && flushed <= state.record_count;
  };
  state.damaged = !sound || state.synced_count > state.record_count ||
                  state.record_count > geometry_.bucket_capacity_records ||
                  !fits(state.flushed_value_count, geometry_.values_per_group()) ||
                  !fits(state.flushed_key_count, geometry_.keys_per_group());
  return state;
}

Status Staging::ReserveRange(const io::File& file, uint64_t offset, uint64_t size) const {
  bool supported = false;
  ENGINE_RACE_RETURN_IF_ERROR(file.Reserve(/*keep_size=*/false, offset, size, &supported));
  if (supported) return Status::Ok();
  // No fallocate here: writing what is there (zeros in a hole) allocates as well.
  constexpr uint64_t kPieceBytes = 64 * 1024;
  std::vector<char> piece(kPieceBytes);
  for (uint64_t done = 0; done < size; done += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, size - done);
    ENGINE_RACE_RETURN_IF_ERROR(file.Read(piece.data(), bytes, offset + done));
    ENGINE_RACE_RETURN_IF_ERROR(file.Write(piece.data(), bytes, offset + done));
  }
  return Status::Ok();
}

Status Staging::ReserveCounts() {
  const std::lock_guard<std::mutex> lock(reserve_mutex_);
  return ReserveCountsLocked();
}

// Under reserve_mutex_.
Status Staging::ReserveCountsLocked() {
  if (counts_reserved_) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(ReserveRange(files_.counts, 0, geometry_.staging_counts_bytes()));
  counts_reserved_ = true;
  return Status::Ok();
}

Status Staging::ReserveCluster(uint32_t cluster) {
  const std::lock_guard<std::mutex> lock(reserve_mutex_);
  // Relaxed: stores to it happen under this mutex.
  if (reserved_[cluster].load(std::memory_order_relaxed)) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(ReserveCountsLocked());
  const uint64_t first = uint64_t{cluster} * cluster_buckets_;
  const uint64_t buckets = std::min<uint64_t>(cluster_buckets_, geometry_.bucket_count - first);
  const uint64_t key_bytes = geometry_.staged_key_bytes_per_bucket();
  const uint64_t value_bytes = geometry_.base_value_bytes_per_bucket();
  ENGINE_RACE_RETURN_IF_ERROR(
      ReserveRange(files_.staged_keys, first * key_bytes, buckets * key_bytes));
  ENGINE_RACE_RETURN_IF_ERROR(
      ReserveRange(files_.staged_values, first * value_bytes, buckets * value_bytes));
  // Relaxed: a statistic.
  reserved_bytes_.fetch_add(buckets * (key_bytes + value_bytes), std::memory_order_relaxed);
  // Release pairs with the acquire in Reserve.
  reserved_[cluster].store(true, std::memory_order_release);
  return Status::Ok();
}

Status Staging::ReserveExtraPlace(uint32_t bucket, uint32_t place) {
  ENGINE_RACE_RETURN_IF_ERROR(ReserveRange(files_.staged_values,
                                           geometry_.ValuePlaceOffset(bucket, place),
                                           geometry_.value_group_bytes));
  // Relaxed: a statistic.
  reserved_bytes_.fetch_add(geometry_.value_group_bytes, std::memory_order_relaxed);
  return Status::Ok();
}

void Staging::PublishWord(uint32_t bucket, format::WordKind kind, uint64_t payload) const {
  static_assert(offsetof(format::BucketCounts, key_places) ==
                    static_cast<size_t>(format::WordKind::kKeyPlaces) * sizeof(uint64_t),
                "a word's kind is its place in the line");
  auto* const line = reinterpret_cast<format::BucketCounts*>(counts_.data()) + bucket;
  uint64_t* const word = reinterpret_cast<uint64_t*>(line) + static_cast<size_t>(kind);
  // Release pairs with the next opening's read of the file: whoever sees a count sees the bytes
  // that it counts.
  std::atomic_ref<uint64_t>(*word).store(
      EncodeWord(files_.identity.store_id, bucket, kind, payload, PayloadBits(kind)),
      std::memory_order_release);
}

Status Staging::WriteLine(uint32_t bucket, const BucketState& state) const {
  const format::BucketCounts line = EncodeCounts(files_.identity.store_id, bucket, state);
  return files_.counts.Write(&line, sizeof(line), bucket * sizeof(line));
}

Status Staging::ReadValues(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                           char* buffer) const {
  return files_.staged_values.Read(buffer, count * kValueBytes,
                                   geometry_.ValuePlaceOffset(bucket, place) + index * kValueBytes);
}

Status Staging::ReadKeys(uint32_t bucket, uint32_t place, uint64_t index, uint64_t count,
                         format::KeyEntry* buffer) const {
  return files_.staged_keys.Read(
      buffer, count * sizeof(format::KeyEntry),
      geometry_.KeyPlaceOffset(bucket, place) + index * sizeof(format::KeyEntry));
}

uint64_t Staging::memory_bytes() const {
  // Relaxed: a statistic.
  return reserved_bytes_.load(std::memory_order_relaxed);
}

}  // namespace engine_race
