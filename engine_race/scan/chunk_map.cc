#include "engine_race/scan/chunk_map.h"

#include <algorithm>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {

ChunkMap::Iterator ChunkMap::FirstEndingFrom(uint64_t key) const {
  const auto block =
      std::partition_point(blocks_.begin(), blocks_.end(),
                           [key](const Block& candidate) { return candidate.last_key < key; });
  if (block == blocks_.end()) return end();
  const auto entry =
      std::partition_point(block->entries.begin(), block->entries.end(),
                           [key](const Entry& candidate) { return candidate.last_key < key; });
  return {this, static_cast<size_t>(block - blocks_.begin()),
          static_cast<size_t>(entry - block->entries.begin())};
}

ChunkMap::Iterator ChunkMap::FirstBeginningFrom(uint64_t key) const {
  Iterator at = FirstEndingFrom(key);
  if (at != end() && at->first_key < key) ++at;
  return at;
}

Chunk* ChunkMap::Find(uint64_t key) const {
  const Iterator at = FirstEndingFrom(key);
  return at == end() || at->first_key > key ? nullptr : at->chunk;
}

uint64_t ChunkMap::BuffersBetween(const Iterator& from, const Iterator& to) const {
  const auto sum = [this](size_t block, size_t begin, size_t end) {
    uint64_t count = 0;
    const Entry* const entries = blocks_[block].entries.data();
    for (size_t i = begin; i < end; ++i) count += entries[i].buffer_count;
    return count;
  };
  if (from >= to) return 0;
  if (from.block_ == to.block_) return sum(from.block_, from.index_, to.index_);
  uint64_t count = sum(from.block_, from.index_, blocks_[from.block_].entries.size());
  for (size_t i = from.block_ + 1; i < to.block_; ++i) count += blocks_[i].buffer_count;
  return to.index_ == 0 ? count : count + sum(to.block_, 0, to.index_);
}

void ChunkMap::Insert(Chunk* chunk) {
  const Entry entry = {chunk->first_key, chunk->last_key, chunk,
                       static_cast<uint32_t>(chunk->buffers.size())};
  Iterator at = FirstEndingFrom(entry.first_key);
  ENGINE_RACE_ASSERT(at == end() || at->first_key > entry.last_key);
  if (blocks_.empty()) {
    Block first;
    first.entries.reserve(kMaxEntries);
    blocks_.push_back(std::move(first));
  } else if (at.index_ == 0 && at.block_ > 0) {
    // Between two blocks, at the end of the first: keys that ascend then fill blocks whole.
    --at.block_;
    at.index_ = blocks_[at.block_].entries.size();
  }
  if (blocks_[at.block_].entries.size() == kMaxEntries) {
    const size_t kept_count = at.index_ == kMaxEntries ? kMaxEntries : kMaxEntries / 2;
    Split(at.block_, kept_count);
    if (at.index_ >= kept_count) {
      ++at.block_;
      at.index_ -= kept_count;
    }
  }
  Block& block = blocks_[at.block_];
  block.entries.insert(block.entries.begin() + static_cast<ptrdiff_t>(at.index_), entry);
  block.buffer_count += entry.buffer_count;
  block.last_key = block.entries.back().last_key;
  ++size_;
}

// Moves the entries of a block from the kept ones on, which may be none, to a new block behind it.
void ChunkMap::Split(size_t block, size_t kept_count) {
  Block made;
  made.entries.reserve(kMaxEntries);
  const std::vector<Entry>& entries = blocks_[block].entries;
  made.entries.assign(entries.begin() + static_cast<ptrdiff_t>(kept_count), entries.end());
  for (const Entry& entry : made.entries) made.buffer_count += entry.buffer_count;
  made.last_key = entries.back().last_key;
  const uint64_t moved_count = made.buffer_count;
  blocks_.insert(blocks_.begin() + static_cast<ptrdiff_t>(block) + 1, std::move(made));
  blocks_[block].entries.resize(kept_count);
  blocks_[block].buffer_count -= moved_count;
  blocks_[block].last_key = blocks_[block].entries.back().last_key;
}

void ChunkMap::Remove(const Chunk* chunk) noexcept {
  const Iterator at = FirstEndingFrom(chunk->first_key);
  ENGINE_RACE_ASSERT(at != end() && at->chunk == chunk);
  Block& block = blocks_[at.block_];
  block.buffer_count -= at->buffer_count;
  block.entries.erase(block.entries.begin() + static_cast<ptrdiff_t>(at.index_));
  --size_;
  if (block.entries.empty()) {
    blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(at.block_));
    return;
  }
  block.last_key = block.entries.back().last_key;
  if (at.block_ > 0) MergeWithNext(at.block_ - 1);
  if (at.block_ < blocks_.size()) MergeWithNext(at.block_);
}

// If both fill half a block together: blocks stay few, and a merged one is not split again soon.
void ChunkMap::MergeWithNext(size_t block) noexcept {
  if (block + 1 >= blocks_.size()) return;
  Block& first = blocks_[block];
  const Block& next = blocks_[block + 1];
  if (first.entries.size() + next.entries.size() > kMaxEntries / 2) return;
  first.entries.insert(first.entries.end(), next.entries.begin(), next.entries.end());
  first.buffer_count += next.buffer_count;
  first.last_key = next.last_key;
  blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(block) + 1);
}

}  // namespace engine_race
