#include "harness/lab/restart_block.h"

#include <algorithm>

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

namespace {

constexpr uint32_t kOffsetBytes = sizeof(uint16_t);

// The last of `count` > 0 entries, `stride` apart, whose key is at or below `rest`; the first when
// there is none.
uint32_t LastAtOrBelow(const char* entries, uint32_t stride, uint32_t count, const char* rest,
                       uint32_t rest_bytes) {
  uint32_t place = 0;
  while (place + 1 < count && std::memcmp(entries + (place + 1) * stride, rest, rest_bytes) <= 0) {
    ++place;
  }
  return place;
}

}  // namespace

uint32_t SquareBlock::LowerBound(const char* key) const {
  const SquareBlockHeader& head = header();
  const int side = std::memcmp(key, head.prefix, head.prefix_bytes);
  if (side != 0) return side < 0 ? 0 : head.record_count;
  const char* rest = key + head.prefix_bytes;
  const uint32_t fanout = head.fanout;
  const uint32_t leaf_count = (head.run_count + fanout - 1) / fanout;
  const uint32_t leaf = LastAtOrBelow(block_ + sizeof(SquareBlockHeader), head.rest_bytes,
                                      leaf_count, rest, head.rest_bytes);
  const uint32_t entry_bytes = head.rest_bytes + kOffsetBytes;
  const char* entries = block_ + head.leaves_offset + leaf * fanout * entry_bytes;
  const uint32_t place =
      LastAtOrBelow(entries, entry_bytes, std::min(fanout, head.run_count - leaf * fanout), rest,
                    head.rest_bytes);
  uint16_t offset;
  std::memcpy(&offset, entries + place * entry_bytes + head.rest_bytes, sizeof(offset));
  uint32_t rank = (leaf * fanout + place) * kRunRecords;
  const uint32_t end = std::min<uint32_t>(rank + kRunRecords, head.record_count);
  for (const char* record = block_ + offset;
       rank < end && std::memcmp(record, rest, head.rest_bytes) < 0; record += head.record_bytes) {
    ++rank;
  }
  return rank;
}

const char* SquareBlock::Find(const char* key) const {
  const uint32_t rank = LowerBound(key);
  if (rank == header().record_count) return nullptr;
  const uint32_t prefix = header().prefix_bytes;
  if (std::memcmp(key, header().prefix, prefix) != 0 ||
      std::memcmp(Record(rank), key + prefix, header().rest_bytes) != 0) {
    return nullptr;
  }
  return Payload(rank);
}

SquareBlockHeader SquareBlockBuilder::HeaderFor(uint32_t count, uint32_t prefix_bytes) const {
  constexpr uint32_t kRun = SquareBlock::kRunRecords;
  SquareBlockHeader header = {};
  header.encoding = static_cast<uint8_t>(Encoding::kSquare);
  header.prefix_bytes = static_cast<uint8_t>(prefix_bytes);
  header.rest_bytes = static_cast<uint8_t>(shape().key_bytes - prefix_bytes);
  header.record_count = static_cast<uint16_t>(count);
  header.run_count = static_cast<uint16_t>((count + kRun - 1) / kRun);
  uint32_t fanout = 1;
  while (fanout * fanout < header.run_count) ++fanout;
  header.fanout = static_cast<uint8_t>(fanout);
  header.record_bytes = static_cast<uint16_t>(header.rest_bytes + shape().payload_bytes);
  header.leaves_offset = static_cast<uint16_t>(sizeof(header) + fanout * header.rest_bytes);
  header.records_offset = static_cast<uint16_t>(
      header.leaves_offset + header.run_count * (header.rest_bytes + kOffsetBytes));
  return header;
}

bool SquareBlockBuilder::Fits(const char* key) const {
  const uint32_t count = record_count() + 1;
  const SquareBlockHeader header = HeaderFor(count, PrefixWith(key));
  return header.records_offset + size_t{count} * header.record_bytes <= kBlockBytes;
}

uint32_t SquareBlockBuilder::Encode(char* block) const {
  SquareBlockHeader header = HeaderFor(record_count(), PrefixWith(last_key()));
  std::memcpy(header.prefix, KeyAt(0), header.prefix_bytes);
  std::memcpy(block, &header, sizeof(header));
  for (uint32_t rank = 0; rank < record_count(); ++rank) {
    char* record = block + header.records_offset + size_t{rank} * header.record_bytes;
    std::memcpy(record, KeyAt(rank) + header.prefix_bytes, header.rest_bytes);
    std::memcpy(record + header.rest_bytes, PayloadAt(rank), shape().payload_bytes);
  }
  char* root = block + sizeof(header);
  char* entry = block + header.leaves_offset;
  for (uint32_t run = 0; run < header.run_count; ++run) {
    const uint32_t head = run * SquareBlock::kRunRecords;
    const char* rest = KeyAt(head) + header.prefix_bytes;
    if (run % header.fanout == 0) {
      std::memcpy(root, rest, header.rest_bytes);
      root += header.rest_bytes;
    }
    std::memcpy(entry, rest, header.rest_bytes);
    const auto offset = static_cast<uint16_t>(header.records_offset + head * header.record_bytes);
    std::memcpy(entry + header.rest_bytes, &offset, sizeof(offset));
    entry += header.rest_bytes + kOffsetBytes;
  }
  return 0;
}

}  // namespace engine_race::lab
