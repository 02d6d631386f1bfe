// The cache that swizzling makes unnecessary: blocks by their number, in a sharded hash table with
// a lock and an LRU list for each shard, as RocksDB has it.
//
// A lookup takes the shard's lock, pins the entry and takes it off the list; its release takes the
// lock again and puts the entry at the list's young end. Entries that nobody holds are evicted from
// the old end when the shard is full.
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

namespace lab {

class BlockCache {
 public:
  // What is cached: any bytes, aligned to a page, or to a cache line when they are few.
  struct alignas(64) Entry {
    char* data = nullptr;
    uint64_t key = 0;
    size_t charge_bytes = 0;
    uint32_t reader_count = 0;
    Entry* next_in_bucket = nullptr;
    // In the LRU list, while nobody holds it.
    Entry* older = nullptr;
    Entry* younger = nullptr;
  };

  struct FreeEntry {
    void operator()(Entry* entry) const;
  };
  using OwnedEntry = std::unique_ptr<Entry, FreeEntry>;

  // Holds an entry of a cache, which outlives it, and lets go of it.
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
    const char* data() const { return entry_->data; }

   private:
    BlockCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  explicit BlockCache(size_t capacity_bytes, uint32_t shard_bits = 6);
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  // Nobody holds an entry any more.
  ~BlockCache();

  // Tells the keys of one user from those of all others.
  uint64_t NewUser() { return users_.fetch_add(1, std::memory_order_relaxed); }

  // Pinned until Release; null when it is not there.
  Entry* Lookup(uint64_t key);
  // Memory for an entry, to be filled and inserted; null when there is none.
  static OwnedEntry Make(size_t bytes);
  // Puts `made` under `key`, and pins it. What is there already stays and is what it gives.
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

}  // namespace lab

#endif  // HARNESS_LAB_BLOCK_CACHE_H_
