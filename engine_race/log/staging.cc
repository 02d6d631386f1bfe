#include "engine_race/log/staging.h"

#include <algorithm>

namespace engine_race {
namespace {

constexpr uint64_t kClusterBytes = uint64_t{2} << 20;

uint32_t ClusterBuckets(const Geometry& geometry) {
  const uint64_t fit = kClusterBytes / geometry.staged_value_bytes_per_bucket();
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, 1, geometry.bucket_count));
}

}  // namespace

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
  const uint64_t store_id = files_.identity.store_id;
  std::vector<format::BucketCounts> lines(geometry_.bucket_count);
  ENGINE_RACE_RETURN_IF_ERROR(
      files_.counts.Read(lines.data(), lines.size() * sizeof(lines.front()), 0));
  states->assign(geometry_.bucket_count, BucketState());
  for (uint32_t bucket = 0; bucket < geometry_.bucket_count; ++bucket) {
    const format::BucketCounts& line = lines[bucket];
    BucketState& state = (*states)[bucket];
    const bool sound = DecodeCount(store_id, bucket, format::CountKind::kRecords, line.records,
                                   &state.record_count) &&
                       DecodeCount(store_id, bucket, format::CountKind::kFlushedValues,
                                   line.flushed_values, &state.flushed_value_count) &&
                       DecodeCount(store_id, bucket, format::CountKind::kFlushedKeys,
                                   line.flushed_keys, &state.flushed_key_count);
    // What is counted but not flushed must lie in the staging halves.
    const auto staged_ok = [&state](uint64_t flushed, uint64_t group, uint64_t halves) {
      return flushed % group == 0 && flushed <= state.record_count &&
             state.record_count - flushed <= group * halves;
    };
    const bool plausible =
        sound && state.record_count <= geometry_.bucket_capacity_records &&
        staged_ok(state.flushed_value_count, geometry_.values_per_group(),
                  geometry_.staging_halves) &&
        staged_ok(state.flushed_key_count, geometry_.keys_per_group(), geometry_.staging_halves);
    if (!plausible) {
      state = BucketState();
      state.damaged = true;
    }
  }
  return Status::Ok();
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

Status Staging::ReserveCluster(uint32_t cluster) {
  const std::lock_guard<std::mutex> lock(reserve_mutex_);
  // Relaxed: stores to it happen under this mutex.
  if (reserved_[cluster].load(std::memory_order_relaxed)) return Status::Ok();
  if (!counts_reserved_) {
    ENGINE_RACE_RETURN_IF_ERROR(ReserveRange(files_.counts, 0, geometry_.staging_counts_bytes()));
    counts_reserved_ = true;
  }
  const uint64_t first = uint64_t{cluster} * cluster_buckets_;
  const uint64_t buckets = std::min<uint64_t>(cluster_buckets_, geometry_.bucket_count - first);
  const uint64_t key_bytes = geometry_.staged_key_bytes_per_bucket();
  const uint64_t value_bytes = geometry_.staged_value_bytes_per_bucket();
  ENGINE_RACE_RETURN_IF_ERROR(
      ReserveRange(files_.staged_keys, first * key_bytes, buckets * key_bytes));
  ENGINE_RACE_RETURN_IF_ERROR(
      ReserveRange(files_.staged_values, first * value_bytes, buckets * value_bytes));
  reserved_clusters_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  // Release pairs with the acquire in Reserve.
  reserved_[cluster].store(true, std::memory_order_release);
  return Status::Ok();
}

void Staging::PublishCount(uint32_t bucket, format::CountKind kind, uint64_t count) const {
  auto* line = reinterpret_cast<format::BucketCounts*>(counts_.data()) + bucket;
  uint64_t* word = nullptr;
  switch (kind) {
    case format::CountKind::kRecords:
      word = &line->records;
      break;
    case format::CountKind::kFlushedValues:
      word = &line->flushed_values;
      break;
    case format::CountKind::kFlushedKeys:
      word = &line->flushed_keys;
      break;
  }
  // Release pairs with the next opening's read of the file: whoever sees the count sees the bytes
  // that it counts.
  std::atomic_ref<uint64_t>(*word).store(EncodeCount(files_.identity.store_id, bucket, kind, count),
                                         std::memory_order_release);
}

uint64_t Staging::ValueGroupOffset(uint32_t bucket, uint64_t group) const {
  return (uint64_t{bucket} * geometry_.staging_halves + group % geometry_.staging_halves) *
         geometry_.value_group_bytes;
}

uint64_t Staging::KeyGroupOffset(uint32_t bucket, uint64_t group) const {
  return (uint64_t{bucket} * geometry_.staging_halves + group % geometry_.staging_halves) *
         geometry_.key_group_bytes;
}

Status Staging::ReadValues(uint32_t bucket, uint64_t slot, uint64_t count, char* buffer) const {
  const uint64_t per_group = geometry_.values_per_group();
  const uint64_t offset =
      ValueGroupOffset(bucket, slot / per_group) + slot % per_group * kValueBytes;
  return files_.staged_values.Read(buffer, count * kValueBytes, offset);
}

Status Staging::ReadKeys(uint32_t bucket, uint64_t slot, uint64_t count,
                         format::KeyEntry* buffer) const {
  const uint64_t per_group = geometry_.keys_per_group();
  const uint64_t offset =
      KeyGroupOffset(bucket, slot / per_group) + slot % per_group * sizeof(format::KeyEntry);
  return files_.staged_keys.Read(buffer, count * sizeof(format::KeyEntry), offset);
}

uint64_t Staging::memory_bytes() const {
  const uint64_t per_bucket =
      geometry_.staged_key_bytes_per_bucket() + geometry_.staged_value_bytes_per_bucket();
  return reserved_clusters_.load(std::memory_order_relaxed) * cluster_buckets_ * per_bucket;
}

}  // namespace engine_race
