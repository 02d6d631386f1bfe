// The cache that swizzling makes unnecessary: blocks by their number, in a sharded hash table with
// a lock and an LRU list for each shard, as RocksDB has it.
//
// A lookup takes the shard's lock, pins the entry and takes it off the list; its release takes the
// lock again and puts the entry at the list's young end. Entries that nobody holds are evicted from
// the old end when the shard is full.
//
// Thread-safe. Owns its blocks.
#ifndef ENGINE_RACE_L1_BLOCK_CACHE_H_
#define ENGINE_RACE_L1_BLOCK_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/status.h"

namespace engine_race::l1 {

class BlockCache {
 public:
  // What is cached: any bytes, aligned to a page.
  struct Entry {
    char* data = nullptr;
    uint64_t key = 0;
    size_t charge_bytes = 0;
    uint32_t reader_count = 0;
    Entry* next_in_bucket = nullptr;
    // In the LRU list, while nobody holds it.
    Entry* older = nullptr;
    Entry* younger = nullptr;
  };

  explicit BlockCache(size_t capacity_bytes, uint32_t shard_bits = 6);
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  // Nobody holds an entry any more.
  ~BlockCache();

  // Pinned until Release; null when it is not there.
  Entry* Lookup(uint64_t key);
  // Puts `bytes` at `data`, which the cache copies, under `key`, and pins them. What is there
  // already stays and is what it gives. kOutOfMemory.
  Status Insert(uint64_t key, const char* data, size_t bytes, Entry** entry);
  void Release(Entry* entry);

  size_t used_bytes() const;

 private:
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    std::vector<Entry*> buckets;
    size_t entry_count = 0;
    size_t used_bytes = 0;
    Entry list;  // its younger is the oldest entry, its older the youngest
  };

  static uint64_t HashOf(uint64_t key);
  Shard& ShardOf(uint64_t hash) { return shards_[hash >> (64 - shard_bits_)]; }
  static Entry** Find(Shard& shard, uint64_t key, uint64_t hash);
  static void Grow(Shard& shard);
  void EvictTo(Shard& shard, size_t bytes);
  static void Unlist(Entry* entry);
  static void Free(Entry* entry);

  const uint32_t shard_bits_;
  const size_t shard_capacity_bytes_;
  const std::unique_ptr<Shard[]> shards_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_BLOCK_CACHE_H_
