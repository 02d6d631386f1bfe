#include "engine_race/copies/backup_piece.h"

#include <algorithm>
#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/base/checksum.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/value_layout.h"

namespace engine_race {
namespace {

using format::BackupPiece;

// Values that a walk reads at once, or one that has more.
constexpr size_t kWindowBytes = size_t{64} << 10;

size_t WindowValues(uint32_t value_bytes) {
  return std::max<size_t>(kWindowBytes / value_bytes, 1);
}

// Whole pages for the header and the list of a piece.
uint64_t MaxHeadBytes(uint32_t value_bytes) {
  return RoundUp(sizeof(BackupPiece) + format::BackupListBytes(value_bytes), kIoAlignment);
}

char* PutVarint(uint64_t word, char* to) {
  for (; word >= 0x80; word >>= 7) *to++ = static_cast<char>(word | 0x80);
  *to++ = static_cast<char>(word);
  return to;
}

// Null when it does not end before `end`, or has too many bits.
const char* GetVarint(const char* from, const char* end, uint64_t* word) {
  *word = 0;
  for (uint32_t shift = 0; from < end && shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(*from++);
    *word |= uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80) == 0) return from;
  }
  return nullptr;
}

uint64_t ChecksumOf(const BackupPiece& header, const char* list) {
  BackupPiece bare = header;
  bare.checksum = 0;
  return Hash64(list, header.list_bytes, Hash64(&bare, sizeof(bare), header.backup_id));
}

}  // namespace

Status PieceWriter::Init() {
  keys_.reserve(format::kBackupPieceRecords);
  is_here_.reserve(format::kBackupPieceRecords);
  hashes_.reserve(most_values_);
  values_begin_ = MaxHeadBytes(value_bytes_);
  encoded_.resize(values_begin_);
  return Region::Allocate(
      values_begin_ + RoundUp(uint64_t{most_values_} * value_bytes_, kIoAlignment), false,
      &buffer_);
}

Status PieceWriter::Add(uint32_t bucket, uint64_t key, const char* value, uint64_t value_hash) {
  if (keys_.size() == format::kBackupPieceRecords ||
      (value != nullptr && hashes_.size() == most_values_)) {
    ENGINE_RACE_RETURN_IF_ERROR(Write(bucket, /*is_last=*/false));
  }
  ENGINE_RACE_ASSERT(keys_.empty() || keys_.back() < key);
  keys_.push_back(key);
  is_here_.push_back(value != nullptr);
  if (value == nullptr) return Status::Ok();
  std::memcpy(buffer_.data() + values_begin_ + hashes_.size() * value_bytes_, value, value_bytes_);
  hashes_.push_back(value_hash);
  return Status::Ok();
}

Status PieceWriter::Finish(uint32_t bucket) {
  if (keys_.empty() && number_ == 0) return Status::Ok();
  ENGINE_RACE_RETURN_IF_ERROR(Write(bucket, /*is_last=*/true));
  number_ = 0;
  return Status::Ok();
}

// The list is encoded right before the values, so that one write takes both.
Status PieceWriter::Write(uint32_t bucket, bool is_last) {
  char* const encoded = encoded_.data();
  char* end = encoded;
  std::memset(end, 0, (keys_.size() + 7) / 8);
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (is_here_[i]) end[i / 8] = static_cast<char>(end[i / 8] | 1 << i % 8);
  }
  end += (keys_.size() + 7) / 8;
  for (size_t i = 0; i < keys_.size(); ++i) {
    end = PutVarint(i == 0 ? 0 : keys_[i] - keys_[i - 1], end);
  }
  std::memcpy(end, hashes_.data(), hashes_.size() * sizeof(uint64_t));
  end += hashes_.size() * sizeof(uint64_t);

  BackupPiece header{};
  header.magic = format::kBackupPieceMagic;
  header.backup_id = backup_id_;
  header.bucket = bucket;
  header.number = number_++;
  header.record_count = static_cast<uint32_t>(keys_.size());
  header.value_count = static_cast<uint32_t>(hashes_.size());
  header.list_bytes = static_cast<uint32_t>(end - encoded);
  header.is_last = is_last ? 1 : 0;
  header.first_key = keys_.empty() ? 0 : keys_.front();
  header.checksum = ChecksumOf(header, encoded);

  const uint64_t head_bytes = RoundUp(sizeof(header) + header.list_bytes, kIoAlignment);
  char* const begin = buffer_.data() + values_begin_ - head_bytes;
  std::memset(begin, 0, head_bytes);
  std::memcpy(begin, &header, sizeof(header));
  std::memcpy(begin + sizeof(header), encoded, header.list_bytes);
  const uint64_t value_bytes = hashes_.size() * value_bytes_;
  const uint64_t padded_bytes = RoundUp(value_bytes, kIoAlignment);
  std::memset(begin + head_bytes + value_bytes, 0, padded_bytes - value_bytes);
  const uint64_t size_bytes = head_bytes + padded_bytes;
  // Relaxed, all: each writer has a place of its own, and the totals are read after all have ended.
  const uint64_t offset = totals_.next_offset.fetch_add(size_bytes, std::memory_order_relaxed);
  totals_.record_count.fetch_add(keys_.size(), std::memory_order_relaxed);
  totals_.value_count.fetch_add(hashes_.size(), std::memory_order_relaxed);
  totals_.piece_count.fetch_add(1, std::memory_order_relaxed);
  totals_.checksum_sum.fetch_add(header.checksum, std::memory_order_relaxed);
  keys_.clear();
  is_here_.clear();
  hashes_.clear();
  return file_.Write(begin, size_bytes, offset);
}

Status ReadPieceHeader(const io::File& file, const std::string& name, uint64_t backup_id,
                       uint32_t value_bytes, uint64_t offset, BackupPiece* header,
                       PiecePlace* place) {
  Region page;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(kIoAlignment, false, &page));
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(page.data(), kIoAlignment, offset));
  std::memcpy(header, page.data(), sizeof(*header));
  if (header->magic != format::kBackupPieceMagic || header->backup_id != backup_id ||
      header->record_count > format::kBackupPieceRecords ||
      header->value_count >
          std::min(header->record_count, format::BackupPieceValues(value_bytes)) ||
      header->list_bytes > format::BackupListBytes(value_bytes)) {
    return Status::Corruption(name + ": no piece of this backup at " + std::to_string(offset));
  }
  place->offset = offset;
  place->values_offset = offset + RoundUp(sizeof(BackupPiece) + header->list_bytes, kIoAlignment);
  place->size_bytes = place->values_offset - offset +
                      RoundUp(uint64_t{header->value_count} * value_bytes, kIoAlignment);
  return Status::Ok();
}

Status PieceWalk::Damaged(const char* why) const {
  return Status::Corruption(name_ + ": the piece at " +
                            std::to_string(places_[next_place_].offset) + ": " + why);
}

// The piece at next_place_.
Status PieceWalk::Load() {
  const uint64_t max_head_bytes = MaxHeadBytes(value_bytes_);
  if (list_.size() == 0) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(max_head_bytes, false, &list_));
    // A window that begins within a page ends within another one.
    const bool is_aligned = value_bytes_ % kIoAlignment == 0;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(
        RoundUp(WindowValues(value_bytes_) * value_bytes_ + (is_aligned ? 0 : kIoAlignment),
                kIoAlignment),
        false, &values_));
  }
  const PiecePlace& place = places_[next_place_];
  ENGINE_RACE_ASSERT(place.values_offset - place.offset <= max_head_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(
      file_.Read(list_.data(), place.values_offset - place.offset, place.offset));
  BackupPiece header;
  std::memcpy(&header, list_.data(), sizeof(header));
  const char* const list = list_.data() + sizeof(header);
  if (header.backup_id != backup_id_ ||
      sizeof(header) + header.list_bytes > place.values_offset - place.offset ||
      header.checksum != ChecksumOf(header, list)) {
    return Damaged("its checksum does not match");
  }
  ENGINE_RACE_RETURN_IF_ERROR(Decode(list, header));
  values_offset_ = place.values_offset;
  window_begin_ = window_end_ = 0;
  at_ = value_index_ = 0;
  ++next_place_;
  return Status::Ok();
}

Status PieceWalk::Decode(const char* list, const BackupPiece& header) {
  const char* const end = list + header.list_bytes;
  keys_.clear();
  is_here_.clear();
  hashes_.resize(header.value_count);
  const char* next = list + (header.record_count + 7) / 8;
  if (next > end) return Damaged("its list is too short");
  size_t here_count = 0;
  uint64_t key = header.first_key;
  for (uint32_t i = 0; i < header.record_count; ++i) {
    uint64_t distance = 0;
    next = GetVarint(next, end, &distance);
    if (next == nullptr) return Damaged("its list is too short");
    key += distance;
    const bool ascends = i == 0 ? distance == 0 && (!has_last_key_ || key > last_key_)
                                : distance != 0 && key > keys_.back();
    if (!ascends) return Damaged("its keys do not ascend");
    keys_.push_back(key);
    is_here_.push_back((list[i / 8] >> i % 8 & 1) != 0);
    here_count += is_here_.back() ? 1 : 0;
  }
  if (here_count != header.value_count ||
      static_cast<uint64_t>(end - next) != header.value_count * sizeof(uint64_t)) {
    return Damaged("its counts do not belong together");
  }
  if (!hashes_.empty()) {
    std::memcpy(hashes_.data(), next, hashes_.size() * sizeof(uint64_t));
  }
  if (!keys_.empty()) {
    last_key_ = keys_.back();
    has_last_key_ = true;
  }
  return Status::Ok();
}

Status PieceWalk::Next(bool* done) {
  if (has_stand_) {
    value_index_ += is_here_[at_] ? 1 : 0;
    ++at_;
  }
  while (at_ == keys_.size()) {
    has_stand_ = false;
    *done = next_place_ == places_.size();
    if (*done) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(Load());
  }
  has_stand_ = true;
  *done = false;
  return Status::Ok();
}

Status PieceWalk::Seek(uint64_t key, bool* done) {
  *done = false;
  if (!has_stand_) ENGINE_RACE_RETURN_IF_ERROR(Next(done));
  while (!*done && keys_[at_] < key) ENGINE_RACE_RETURN_IF_ERROR(Next(done));
  return Status::Ok();
}

Status PieceWalk::Value(const char** value) {
  ENGINE_RACE_ASSERT(has_stand_ && is_here_[at_]);
  const uint64_t offset = values_offset_ + value_index_ * value_bytes_;
  if (value_index_ < window_begin_ || value_index_ >= window_end_) {
    const size_t count = std::min(WindowValues(value_bytes_), hashes_.size() - value_index_);
    const Blocks blocks = BlocksAround(offset, count * value_bytes_);
    ENGINE_RACE_ASSERT(blocks.size_bytes <= values_.size());
    ENGINE_RACE_RETURN_IF_ERROR(file_.Read(values_.data(), blocks.size_bytes, blocks.offset));
    window_begin_ = value_index_;
    window_end_ = value_index_ + count;
    window_skip_bytes_ = blocks.skip_bytes;
  }
  *value = values_.data() + window_skip_bytes_ + (value_index_ - window_begin_) * value_bytes_;
  if (HashValue(*value, value_bytes_) == hashes_[value_index_]) return Status::Ok();
  return Status::Corruption(name_ + ": the value at " + std::to_string(offset) +
                            " does not match its checksum");
}

}  // namespace engine_race
