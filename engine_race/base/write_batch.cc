#include "engine_race/base/write_batch.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine_race/base/checksum.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/key.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"

namespace engine_race {

namespace {

// BatchPlan numbers records with 32 bits. Sums of two such counts, and their bytes, fit a size_t.
constexpr size_t kMaxRecords = size_t{1} << 32;

constexpr size_t kMaxChunkValues = 128;
constexpr size_t kMaxChunkBytes = kMaxChunkValues * kValueBytes;

}  // namespace

// Out of line, all five: what they need is no symbol of the library's.
WriteBatch::WriteBatch() : WriteBatch(kValueBytes) {}
WriteBatch::WriteBatch(uint32_t value_bytes)
    : value_bytes_(std::clamp(value_bytes, kMinValueBytes, kMaxValueBytes)) {}
WriteBatch::WriteBatch(WriteBatch&& other) noexcept : value_bytes_(other.value_bytes_) {
  *this = std::move(other);
}
WriteBatch::~WriteBatch() = default;

WriteBatch& WriteBatch::operator=(WriteBatch&& other) noexcept {
  value_bytes_ = other.value_bytes_;
  records_ = std::move(other.records_);
  chunks_ = std::move(other.chunks_);
  value_count_ = std::exchange(other.value_count_, 0);
  other.records_.clear();
  other.chunks_.clear();
  return *this;
}

size_t WriteBatch::chunk_values() const {
  return std::clamp<size_t>(kMaxChunkBytes / value_bytes_, 1, kMaxChunkValues);
}

Status WriteBatch::AddChunk() {
  Region chunk;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(chunk_values() * value_bytes_, /*huge_pages=*/false, &chunk));
  chunks_.push_back(std::move(chunk));
  return Status::Ok();
}

Status WriteBatch::Put(std::string_view key, std::string_view value) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
  return Guarded([&] {
    if (value.size() != value_bytes_ || value.data() == nullptr) [[unlikely]] {
      return Status::InvalidArgument("a value has " + std::to_string(value_bytes_) +
                                     " bytes, not " + std::to_string(value.size()));
    }
    return Append(DecodeKey(key.data()), value.data());
  });
}

Status WriteBatch::Append(uint64_t key, const char* value) {
  const size_t chunk = value_count_ / chunk_values();
  if (chunk == chunks_.size()) ENGINE_RACE_RETURN_IF_ERROR(AddChunk());
  char* const copy = chunks_[chunk].data() + value_count_ % chunk_values() * value_bytes_;
  std::memcpy(copy, value, value_bytes_);
  // Computed here, while the value is in the nearest cache.
  records_.push_back({key, copy, HashValue(copy, value_bytes_)});
  ++value_count_;
  return Status::Ok();
}

Status WriteBatch::PutMany(std::span<const uint64_t> keys, const char* values) {
  const size_t record_count = records_.size();
  const size_t value_count = value_count_;
  Status put = Guarded([&] {
    for (size_t i = 0; i < keys.size(); ++i) {
      ENGINE_RACE_RETURN_IF_ERROR(Append(keys[i], values + i * value_bytes_));
    }
    return Status::Ok();
  });
  if (!put.ok()) {
    records_.resize(record_count);
    value_count_ = value_count;
  }
  return put;
}

Status WriteBatch::Delete(std::string_view key) {
  ENGINE_RACE_RETURN_IF_ERROR(CheckKey(key));
  return Guarded([&] {
    records_.push_back({DecodeKey(key.data()), nullptr, 0});
    return Status::Ok();
  });
}

Status WriteBatch::Reserve(size_t put_count, size_t delete_count) {
  if (put_count > kMaxRecords || delete_count > kMaxRecords) {
    return Status::OutOfMemory("a batch for more than 2^32 records");
  }
  return Guarded([&] {
    records_.reserve(std::max(records_.size(), put_count + delete_count));
    const size_t wanted = (put_count + chunk_values() - 1) / chunk_values();
    chunks_.reserve(std::max(chunks_.size(), wanted));
    while (chunks_.size() < wanted) ENGINE_RACE_RETURN_IF_ERROR(AddChunk());
    return Status::Ok();
  });
}

void WriteBatch::Clear() noexcept {
  records_.clear();
  value_count_ = 0;
}

uint64_t WriteBatch::bytes() const {
  return records_.size() * kKeyBytes + uint64_t{value_count_} * value_bytes_;
}

}  // namespace engine_race
