#include "harness/lab/block_cache.h"

#include <cstdlib>
#include <new>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/round_up.h"

namespace engine_race::lab {

BlockCache::BlockCache(size_t capacity_bytes, uint32_t shard_bits)
    : shard_bits_(shard_bits),
      shard_capacity_bytes_(capacity_bytes >> shard_bits),
      shards_(std::make_unique<Shard[]>(size_t{1} << shard_bits)) {
  for (size_t i = 0; i < size_t{1} << shard_bits_; ++i) {
    Shard& shard = shards_[i];
    shard.buckets.resize(16);
    shard.list.older = shard.list.younger = &shard.list;
  }
}

BlockCache::~BlockCache() {
  for (size_t i = 0; i < size_t{1} << shard_bits_; ++i) {
    for (Entry* entry : shards_[i].buckets) {
      while (entry != nullptr) FreeEntry()(std::exchange(entry, entry->next_in_bucket));
    }
  }
}

uint64_t BlockCache::HashOf(uint64_t key) {
  return MixWords(key ^ 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93);
}

BlockCache::Entry** BlockCache::Find(Shard& shard, uint64_t key, uint64_t hash) {
  Entry** at = &shard.buckets[hash & (shard.buckets.size() - 1)];
  while (*at != nullptr && (*at)->key != key) at = &(*at)->next_in_bucket;
  return at;
}

BlockCache::Entry* BlockCache::Lookup(uint64_t key) {
  const uint64_t hash = HashOf(key);
  Shard& shard = ShardOf(hash);
  const std::lock_guard lock(shard.mutex);
  Entry* const entry = *Find(shard, key, hash);
  if (entry == nullptr) return nullptr;
  if (entry->reader_count++ == 0) Unlist(entry);
  return entry;
}

void BlockCache::Release(Entry* entry) {
  Shard& shard = ShardOf(HashOf(entry->key));
  const std::lock_guard lock(shard.mutex);
  if (--entry->reader_count > 0) return;
  Entry* const youngest = shard.list.older;
  entry->older = youngest;
  entry->younger = &shard.list;
  youngest->younger = entry;
  shard.list.older = entry;
  EvictTo(shard, shard_capacity_bytes_);
}

BlockCache::OwnedEntry BlockCache::Make(size_t bytes) {
  OwnedEntry made(new (std::nothrow) Entry);
  if (made == nullptr) return nullptr;
  const size_t alignment = bytes < kIoAlignment ? alignof(Entry) : kIoAlignment;
  const size_t room = RoundUp(bytes, alignment);
  made->data = static_cast<char*>(std::aligned_alloc(alignment, room));
  if (made->data == nullptr) return nullptr;
  made->charge_bytes = room + sizeof(Entry);
  return made;
}

BlockCache::Entry* BlockCache::Insert(uint64_t key, OwnedEntry made) {
  const uint64_t hash = HashOf(key);
  Shard& shard = ShardOf(hash);
  const std::lock_guard lock(shard.mutex);
  Entry** at = Find(shard, key, hash);
  if (*at != nullptr) {
    if ((*at)->reader_count++ == 0) Unlist(*at);
    return *at;
  }
  Entry* const entry = made.release();
  entry->key = key;
  entry->reader_count = 1;
  *at = entry;
  shard.used_bytes += entry->charge_bytes;
  if (++shard.entry_count > shard.buckets.size()) Grow(shard);
  EvictTo(shard, shard_capacity_bytes_);
  return entry;
}

// Without memory for a larger table the chains just grow longer.
void BlockCache::Grow(Shard& shard) {
  std::vector<Entry*> larger;
  try {
    larger.resize(2 * shard.buckets.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  for (Entry* entry : shard.buckets) {
    while (entry != nullptr) {
      Entry* const next = entry->next_in_bucket;
      Entry*& head = larger[HashOf(entry->key) & (larger.size() - 1)];
      entry->next_in_bucket = head;
      head = entry;
      entry = next;
    }
  }
  shard.buckets.swap(larger);
}

void BlockCache::EvictTo(Shard& shard, size_t bytes) {
  while (shard.used_bytes > bytes && shard.list.younger != &shard.list) {
    Entry* const oldest = shard.list.younger;
    Unlist(oldest);
    *Find(shard, oldest->key, HashOf(oldest->key)) = oldest->next_in_bucket;
    shard.used_bytes -= oldest->charge_bytes;
    --shard.entry_count;
    FreeEntry()(oldest);
  }
}

void BlockCache::Unlist(Entry* entry) {
  entry->older->younger = entry->younger;
  entry->younger->older = entry->older;
}

void BlockCache::FreeEntry::operator()(Entry* entry) const {
  std::free(entry->data);
  delete entry;
}

size_t BlockCache::used_bytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < size_t{1} << shard_bits_; ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    bytes += shards_[i].used_bytes;
  }
  return bytes;
}

}  // namespace engine_race::lab
