// The cache that swizzling replaces. It finds blocks by their number in a sharded hash table; each
// shard has a lock and an LRU list, as in RocksDB.
//
// A lookup takes the shard's lock, pins the entry and removes it from the list. Its release takes
// the lock again and appends the entry to the list's young end. When the shard is full, unpinned
// entries are evicted from the old end.
//
// Thread-safe. Owns its blocks.
#ifndef HARNESS_LAB_BLOCK_CACHE_H_
#define HARNESS_LAB_BLOCK_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace engine_race::lab {

class BlockCache {
 public:
  // An entry's bytes are aligned to a page, or to a cache line when they are few.
  struct alignas(64) Entry {
    char* data = nullptr;
    uint64_t key = 0;
    size_t charge_bytes = 0;
    uint32_t reader_count = 0;
    Entry* next_in_bucket = nullptr;
    // In the LRU list, while the entry is unpinned.
    Entry* older = nullptr;
    Entry* younger = nullptr;
  };

  struct FreeEntry {
    void operator()(Entry* entry) const;
  };
  using OwnedEntry = std::unique_ptr<Entry, FreeEntry>;

  // Pins an entry while it lives. The cache outlives it.
  class Pin {
   public:
    Pin() = default;
    Pin(BlockCache* cache, Entry* entry) : cache_(cache), entry_(entry) {}
    Pin(Pin&& other) noexcept
        : cache_(other.cache_), entry_(std::exchange(other.entry_, nullptr)) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(entry_, other.entry_);
      return *this;
    }
    ~Pin() { Reset(); }
    void Reset() {
      if (entry_ != nullptr) cache_->Release(std::exchange(entry_, nullptr));
    }
    // False if the cache did not have the entry.
    bool holds() const { return entry_ != nullptr; }
    const char* data() const { return entry_->data; }

   private:
    BlockCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  explicit BlockCache(size_t capacity_bytes, uint32_t shard_bits = 6);
  // No entry may be pinned.
  ~BlockCache();

  // A number that tells the keys of one user from those of all others.
  uint64_t NewUser() { return users_.fetch_add(1, std::memory_order_relaxed); }

  // Returns the entry, pinned until Release, or null when there is none.
  Entry* Lookup(uint64_t key);
  // Memory for an entry, to be filled and inserted; null when there is none.
  static OwnedEntry Make(size_t bytes);
  // Inserts `made` under `key` and returns it, pinned. If `key` has an entry already, that entry
  // stays and is returned, pinned.
  Entry* Insert(uint64_t key, OwnedEntry made);
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
  Shard& ShardOf(uint64_t hash) { return shards_[(hash >> 32 << shard_bits_) >> 32]; }
  static Entry** Find(Shard& shard, uint64_t key, uint64_t hash);
  static void Grow(Shard& shard);
  void EvictTo(Shard& shard, size_t bytes);
  static void Unlist(Entry* entry);

  const uint32_t shard_bits_;
  const size_t shard_capacity_bytes_;
  const std::unique_ptr<Shard[]> shards_;
  std::atomic<uint64_t> users_{0};
};

}  // namespace engine_race::lab

#endif  // HARNESS_LAB_BLOCK_CACHE_H_
