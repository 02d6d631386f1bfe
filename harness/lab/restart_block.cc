#include "harness/lab/restart_block.h"

namespace engine_race::lab {

uint32_t RestartBlock::FindRestart(const char* key) const {
  const uint32_t key_bytes = trailer().key_bytes;
  uint32_t low = 0;
  uint32_t high = trailer().restart_count;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    const bool above = std::memcmp(RestartEntry(middle) + 1, key, key_bytes) > 0;
    (above ? high : low) = middle;
  }
  return low;
}

const char* RestartBlock::Find(const char* key) const {
  Cursor cursor(block_);
  cursor.Seek(key);
  if (!cursor.valid() || std::memcmp(cursor.key(), key, trailer().key_bytes) != 0) return nullptr;
  return cursor.payload();
}

void RestartBlock::Cursor::Seek(const char* key) {
  const uint32_t key_bytes = block_.trailer().key_bytes;
  GoToRestart(block_.FindRestart(key));
  while (valid() && std::memcmp(key_, key, key_bytes) < 0) Next();
}

void RestartBlock::Cursor::SeekRank(uint32_t rank) {
  GoToRestart(rank / kRestartInterval);
  while (rank_ < rank) Next();
}

void RestartBlock::Cursor::GoToRestart(uint32_t restart) {
  rank_ = restart * kRestartInterval;
  entry_ = block_.RestartEntry(restart);
  Decode();
}

void RestartBlock::Cursor::Next() {
  entry_ = payload() + block_.trailer().payload_bytes;
  if (++rank_ < block_.trailer().record_count) Decode();
}

inline void RestartBlock::Cursor::Decode() {
  const auto shared = static_cast<uint8_t>(entry_[0]);
  std::memcpy(key_ + shared, entry_ + 1, block_.trailer().key_bytes - shared);
}

size_t RestartBlockBuilder::EntryBytes(uint32_t rank, const char* key) const {
  const uint32_t shared = rank % RestartBlock::kRestartInterval == 0
                              ? 0
                              : CommonPrefix(KeyAt(rank - 1), key, shape().key_bytes);
  return 1 + shape().record_bytes() - shared;
}

bool RestartBlockBuilder::Fits(const char* key) const {
  if (record_count() < counted_) entry_bytes_ = counted_ = 0;
  for (; counted_ < record_count(); ++counted_) {
    entry_bytes_ += EntryBytes(counted_, KeyAt(counted_));
  }
  const uint32_t restarts = record_count() / RestartBlock::kRestartInterval + 1;
  const size_t bytes = entry_bytes_ + EntryBytes(record_count(), key) + 2 * size_t{restarts};
  return bytes <= RestartBlock::kTrailerOffset;
}

uint32_t RestartBlockBuilder::Encode(char* block) const {
  char* end = block;
  std::vector<uint16_t> restarts;
  for (uint32_t rank = 0; rank < record_count(); ++rank) {
    const char* key = KeyAt(rank);
    uint32_t shared = 0;
    if (rank % RestartBlock::kRestartInterval == 0) {
      restarts.push_back(static_cast<uint16_t>(end - block));
    } else {
      shared = CommonPrefix(KeyAt(rank - 1), key, shape().key_bytes);
    }
    *end++ = static_cast<char>(shared);
    std::memcpy(end, key + shared, shape().key_bytes - shared);
    end += shape().key_bytes - shared;
    std::memcpy(end, PayloadAt(rank), shape().payload_bytes);
    end += shape().payload_bytes;
  }
  RestartBlockTrailer trailer = {};
  trailer.encoding = static_cast<uint8_t>(Encoding::kRestart);
  trailer.key_bytes = static_cast<uint8_t>(shape().key_bytes);
  trailer.payload_bytes = static_cast<uint16_t>(shape().payload_bytes);
  trailer.record_count = static_cast<uint16_t>(record_count());
  trailer.restart_count = static_cast<uint16_t>(restarts.size());
  trailer.restarts_offset = static_cast<uint16_t>(end - block);
  std::memcpy(end, restarts.data(), restarts.size() * sizeof(uint16_t));
  std::memcpy(block + RestartBlock::kTrailerOffset, &trailer, sizeof(trailer));
  return 0;
}

}  // namespace engine_race::lab
