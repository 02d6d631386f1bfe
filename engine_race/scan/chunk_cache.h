// The chunks in memory by their first key, which never overlap, and the blocks they lie in.
//
// Only the coordinator adds and removes; scans find and pin. Guarded by the coordinator's mutex,
// except memory_bytes. Owns every chunk.
//
// With a share, every block that holds memory is booked from it.
#ifndef ENGINE_RACE_SCAN_CHUNK_CACHE_H_
#define ENGINE_RACE_SCAN_CHUNK_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "engine_race/base/memory_share.h"
#include "engine_race/scan/block_pool.h"
#include "engine_race/scan/chunk.h"
#include "engine_race/scan/scanner.h"

namespace engine_race {

class ChunkCache {
 public:
  static constexpr uint32_t kBlockBytes = 256 * 1024;
  static constexpr uint32_t kBlockPlaces = kBlockBytes / kValueBytes;
  // What describes the values of a block: entries, places and the like are 21 bytes a record of
  // kValueBytes, and their vectors may grow to twice what they need.
  static constexpr uint32_t kEntryBytes = kBlockBytes / 64;
  static constexpr uint32_t kBookedBytes = kBlockBytes + kEntryBytes;

  enum class Fresh { kFirst, kLast, kNever };

  // A request for blocks.
  struct Need {
    uint64_t first_key = 0;
    uint32_t block_count = 0;
    // Some scan waits for it; otherwise it is read ahead.
    bool waited_for = false;
    // Reading ahead may push out what no scan under way will use again.
    bool may_replace_passed = false;
    // Memory never used so far may be taken: gladly, when nothing can be evicted, or not at all.
    Fresh fresh = Fresh::kFirst;
  };

  // `share` may be null: all blocks may be used.
  Status Allocate(uint32_t block_count, MemoryShare* share);

  // An empty chunk, not in the map. std::bad_alloc.
  Chunk* NewChunk();
  // Gives back a chunk that is neither in the map nor pinned nor being read.
  void Drop(Chunk* chunk);

  // The chunk that holds `key`, whatever its state, or null.
  Chunk* Find(uint64_t key) const;
  // The range around `key`, which no chunk holds, that is free of chunks.
  void FreeRange(uint64_t key, uint64_t* low, uint64_t* high) const;
  // The blocks of the chunks that start in [first_key, end_key).
  uint32_t BlocksBetween(uint64_t first_key, uint64_t end_key) const;

  // Evicts unpinned chunks until the need can be met; false, and nothing evicted, when it cannot. A
  // chunk on the way of an attached scan, near enough to be reached with that scan's share of the
  // memory, stays. First go chunks that no attached scan wants, the highest keys before others, so
  // that the next pass finds the first ones; then those wanted furthest ahead.
  bool MakeRoom(const Need& need, const std::vector<Scanner*>& attached);

  // Takes blocks for which room was made; false when the share has none for them any more.
  // std::bad_alloc.
  bool TakeBlocks(uint32_t count, std::vector<uint32_t>* blocks);
  // Shrinks to what the share allows now, or may grow to that from now on.
  void FitShare(const std::vector<Scanner*>& attached);
  // Gives blocks up until no more than `bytes` are booked, if it can: free ones first, then those
  // of unpinned chunks in the order in which MakeRoom evicts them.
  void ShrinkTo(uint64_t bytes, const std::vector<Scanner*>& attached);

  // Puts a placed chunk into the map. std::bad_alloc.
  void Insert(Chunk* chunk);
  // Takes it out of the map. Whoever has it pinned goes on with it.
  void Remove(Chunk* chunk, const std::vector<Scanner*>& attached);

  // Lets MakeRoom deal with that many scans without taking memory.
  void ReserveScanners(size_t count) {
    if (by_pos_.capacity() < count) by_pos_.reserve(2 * count);
  }

  void Pin(Chunk* chunk) { ++chunk->pins; }
  // True when nobody has it pinned any more.
  bool Unpin(Chunk* chunk, bool detached);
  void MarkDetached(Chunk* chunk);

  BlockPool& pool() { return pool_; }
  // Blocks not held fast by scans that nobody waits for.
  uint32_t available_blocks() const {
    return pool_.limit() > detached_blocks_ ? pool_.limit() - detached_blocks_ : 0;
  }
  // Beside Allocate, too: the pool says its block size only afterwards.
  uint64_t memory_bytes() const {
    return uint64_t{pool_.touched_count()} * kBlockBytes + entry_bytes_.load();
  }

 private:
  struct Victim {
    Chunk* chunk = nullptr;
    bool wanted = false;
    uint64_t distance = 0;
  };

  void SortScanners(const std::vector<Scanner*>& attached);
  void CollectVictims(const Need& need);
  void Shrink(const std::vector<Scanner*>& attached);
  void Release();
  void Delete(Chunk* chunk);
  // What chunks that hold no block may keep of their vectors.
  bool has_spare_entry_bytes() const {
    return entry_bytes_.load() <= uint64_t{pool_.limit()} * kEntryBytes;
  }
  uint32_t CountGroups() const;
  uint64_t DistanceTo(uint64_t key) const;
  bool EvictFor(const Need& need, uint32_t free_blocks, const std::vector<Scanner*>& attached);
  void Account(Chunk* chunk);

  BlockPool pool_;
  MemoryShare* share_ = nullptr;
  std::map<uint64_t, Chunk*> by_key_;
  std::vector<std::unique_ptr<Chunk>> all_;
  std::vector<Chunk*> spare_;
  std::vector<Scanner*> by_pos_;  // scratch of MakeRoom and Shrink
  std::vector<Victim> victims_;   // likewise
  uint32_t detached_blocks_ = 0;
  std::atomic<uint64_t> entry_bytes_{0};
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_CHUNK_CACHE_H_
