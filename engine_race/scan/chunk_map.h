// A sorted map of the chunks in memory by key, which also sums the buffers of neighbouring chunks.
//
// The chunks lie in blocks, each with the sum of its buffers. With 64 000 chunks there are a few
// hundred blocks, so a sum adds up those, and the chunks of two blocks at most.
//
// Thread safety: none; guarded by the coordinator's mutex. It owns no chunk.
// Invariants: chunks do not overlap, and change neither their keys nor their buffers in the map.
#ifndef ENGINE_RACE_SCAN_CHUNK_MAP_H_
#define ENGINE_RACE_SCAN_CHUNK_MAP_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/scan/chunk.h"

namespace engine_race {

class ChunkMap {
 public:
  struct Entry {
    uint64_t first_key = 0;
    uint64_t last_key = 0;
    Chunk* chunk = nullptr;
    uint32_t buffer_count = 0;
  };
  // Valid until the next Insert or Remove.
  class Iterator {
   public:
    const Entry& operator*() const { return map_->blocks_[block_].entries[index_]; }
    const Entry* operator->() const { return &**this; }
    Iterator& operator++() {
      if (++index_ == map_->blocks_[block_].entries.size()) {
        ++block_;
        index_ = 0;
      }
      return *this;
    }
    Iterator& operator--() {
      if (index_ == 0) index_ = map_->blocks_[--block_].entries.size();
      --index_;
      return *this;
    }
    friend auto operator<=>(const Iterator& a, const Iterator& b) = default;

   private:
    friend class ChunkMap;
    Iterator(const ChunkMap* map, size_t block, size_t index)
        : map_(map), block_(block), index_(index) {}

    const ChunkMap* map_;
    size_t block_;
    size_t index_;
  };

  // std::bad_alloc, with the map as it was.
  void Insert(Chunk* chunk);
  // `chunk` is in the map.
  void Remove(const Chunk* chunk) noexcept;
  size_t size() const { return size_; }

  Iterator begin() const { return {this, 0, 0}; }
  Iterator end() const { return {this, blocks_.size(), 0}; }
  // The first chunk that ends at `key` or after it.
  Iterator FirstEndingFrom(uint64_t key) const;
  // The first chunk that begins at `key` or after it.
  Iterator FirstBeginningFrom(uint64_t key) const;
  // The chunk that holds `key`, or null.
  Chunk* Find(uint64_t key) const;
  // The buffers of the chunks [from, to).
  uint64_t BuffersBetween(const Iterator& from, const Iterator& to) const;

 private:
  static constexpr size_t kMaxEntries = 256;
  struct Block {
    std::vector<Entry> entries;  // in order, never empty, with room for kMaxEntries
    uint64_t buffer_count = 0;
    uint64_t last_key = 0;  // of the last entry
  };

  void Split(size_t block, size_t kept_count);
  void MergeWithNext(size_t block) noexcept;

  std::vector<Block> blocks_;
  size_t size_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_MAP_H_
