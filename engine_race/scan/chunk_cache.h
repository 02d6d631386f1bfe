// The chunks in memory by their first key, which never overlap, and the buffers they lie in.
//
// Only the coordinator adds and removes; scans find and pin. Guarded by the coordinator's mutex,
// except memory_bytes. Owns every shared chunk.
//
// With a share, every buffer that holds memory is booked from it.
// Invariants: a chunk is in the map, pinned, or spare; buffers in use and memory booked agree.
#ifndef ENGINE_RACE_SCAN_CHUNK_CACHE_H_
#define ENGINE_RACE_SCAN_CHUNK_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/base/memory_share.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/chunk_map.h"

namespace engine_race {

class ChunkCache {
 public:
  explicit ChunkCache(const BufferLayout& layout)
      : layout_(layout),
        entry_bytes_each_(uint64_t{kBytesBesideValue} *
                          layout.MostRecords(layout.buffer_positions())) {}

  const BufferLayout& layout() const { return layout_; }
  // Of a buffer and what describes its values.
  uint64_t booked_bytes() const { return layout_.buffer_bytes() + entry_bytes_each_; }

  // `share` may be null: all buffers may be used.
  Status Allocate(uint32_t buffer_count, MemoryShare* share, const Placement& placement);

  // An empty chunk, not in the map. std::bad_alloc.
  Chunk* NewChunk();
  // Gives back a chunk that is neither in the map nor pinned.
  void Drop(Chunk* chunk);

  // The chunk that holds `key`, read or not, or null.
  Chunk* Find(uint64_t key) const { return chunks_.Find(key); }
  const ChunkMap& chunks() const { return chunks_; }
  // The range around `key`, which no chunk holds, that is free of chunks.
  void FreeRange(uint64_t key, uint64_t* low, uint64_t* high) const;
  // Chunks without records take no buffer, so the number of chunks is bounded by itself.
  size_t max_chunks() const { return size_t{pool_.buffer_count()} + 64; }
  bool full() const { return chunks_.size() >= max_chunks(); }

  // Takes buffers that are free; false when the share has none for them any more. std::bad_alloc.
  bool TakeBuffers(uint32_t count, std::vector<uint32_t>* buffers);
  // Gives back all of *buffers but the first `keep_count`.
  void GiveBuffers(uint32_t keep_count, std::vector<uint32_t>* buffers) noexcept {
    for (; buffers->size() > keep_count; buffers->pop_back()) pool_.GiveOne(buffers->back());
  }
  // Sets how much the share allows from now on, in bytes booked.
  void SetLimit(uint64_t bytes);
  // Gives free buffers above the limit back to the system. True when no more than the limit is
  // left.
  bool FitLimit();

  // Puts a placed chunk into the map. std::bad_alloc.
  void Insert(Chunk* chunk);
  // Takes it out of the map. Scans that have it pinned go on with it.
  void Remove(Chunk* chunk);

  void Pin(Chunk* chunk) { ++chunk->pins; }
  // True when nobody has it pinned any more.
  bool Unpin(Chunk* chunk);

  BufferPool& pool() { return pool_; }
  const BufferPool& pool() const { return pool_; }
  // Beside Allocate, too: the pool says its buffer size only afterwards.
  uint64_t memory_bytes() const {
    return uint64_t{pool_.touched_count()} * layout_.buffer_bytes() + entry_bytes_.load();
  }

 private:
  // Entries, positions and the like are 21 bytes, and their vectors may grow to twice what they
  // need.
  static constexpr uint32_t kBytesBesideValue = 64;

  void Delete(Chunk* chunk);
  void Account(Chunk* chunk);
  // Whether chunks that hold no buffer may keep their vectors.
  bool has_spare_entry_bytes() const {
    return entry_bytes_.load() <= pool_.limit() * entry_bytes_each_;
  }

  const BufferLayout layout_;
  const uint64_t entry_bytes_each_;  // the most that describe the values of a buffer
  BufferPool pool_;
  MemoryShare* share_ = nullptr;
  ChunkMap chunks_;
  std::vector<std::unique_ptr<Chunk>> all_;
  std::vector<Chunk*> spare_;
  std::atomic<uint64_t> entry_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_CACHE_H_
