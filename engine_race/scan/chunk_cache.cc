#include "engine_race/scan/chunk_cache.h"

#include <algorithm>
#include <limits>
#include <new>

namespace engine_race {

namespace {

// Chunks without records take no block, so the number of chunks is bounded by itself.
size_t MaxChunks(uint32_t block_count) { return size_t{block_count} + 64; }

// The scans whose ways, from where they are to where their loaded chunks end, touch each other.
// They share what is loaded, and the memory is divided by such groups.
struct Group {
  bool open = false;
  bool reaches = false;  // anything at all is loaded
  uint64_t reach = 0;    // the last key loaded

  // Takes in the next scan by position; true when it begins a new group.
  bool Add(const Scanner& scanner) {
    const bool joins = open && reaches && (scanner.pos == 0 || scanner.pos - 1 <= reach);
    const bool begins = !joins && !(open && !reaches && scanner.pos == start);
    if (begins) {
      open = true;
      reaches = false;
      start = scanner.pos;
    }
    const bool covers = scanner.covered || scanner.frontier > scanner.pos;
    if (covers) {
      const uint64_t end = scanner.covered ? scanner.last : scanner.frontier - 1;
      reach = reaches ? std::max(reach, end) : end;
      reaches = true;
    }
    return begins;
  }
  bool Holds(const Chunk& chunk) const { return open && reaches && chunk.first_key <= reach; }

  uint64_t start = 0;
};

}  // namespace

Status ChunkCache::Allocate(uint32_t block_count, MemoryShare* share) {
  share_ = share;
  try {
    victims_.reserve(MaxChunks(block_count));
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("scan coordinator");
  }
  return pool_.Allocate(kBlockBytes, block_count);
}

Chunk* ChunkCache::NewChunk() {
  if (spare_.empty()) {
    spare_.reserve(all_.size() + 1);
    all_.push_back(std::make_unique<Chunk>());
    return all_.back().get();
  }
  Chunk* chunk = spare_.back();
  spare_.pop_back();
  return chunk;
}

void ChunkCache::Account(Chunk* chunk) {
  const uint64_t bytes = chunk->memory_bytes();
  entry_bytes_.fetch_add(bytes - chunk->counted_bytes);
  chunk->counted_bytes = bytes;
}

void ChunkCache::Drop(Chunk* chunk) {
  pool_.Give(&chunk->blocks);
  chunk->Recycle();
  Account(chunk);
  if (has_spare_entry_bytes()) {
    spare_.push_back(chunk);
  } else {
    Delete(chunk);
  }
}

void ChunkCache::Delete(Chunk* chunk) {
  entry_bytes_.fetch_sub(chunk->counted_bytes);
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [chunk](const auto& owned) { return owned.get() == chunk; });
  std::swap(*at, all_.back());
  all_.pop_back();
}

Chunk* ChunkCache::Find(uint64_t key) const {
  auto after = by_key_.upper_bound(key);
  if (after == by_key_.begin()) return nullptr;
  Chunk* chunk = std::prev(after)->second;
  return chunk->last_key >= key ? chunk : nullptr;
}

void ChunkCache::FreeRange(uint64_t key, uint64_t* low, uint64_t* high) const {
  const auto after = by_key_.upper_bound(key);
  *high = after == by_key_.end() ? std::numeric_limits<uint64_t>::max() : after->first - 1;
  *low = after == by_key_.begin() ? 0 : std::prev(after)->second->last_key + 1;
}

uint32_t ChunkCache::BlocksBetween(uint64_t first_key, uint64_t end_key) const {
  uint32_t count = 0;
  for (auto at = by_key_.lower_bound(first_key); at != by_key_.end() && at->first < end_key; ++at) {
    count += static_cast<uint32_t>(at->second->blocks.size());
  }
  return count;
}

uint32_t ChunkCache::CountGroups() const {
  Group group;
  uint32_t count = 0;
  for (const Scanner* scanner : by_pos_) count += group.Add(*scanner) ? 1 : 0;
  return count;
}

uint64_t ChunkCache::DistanceTo(uint64_t key) const {
  uint64_t distance = std::numeric_limits<uint64_t>::max();
  for (const Scanner* scanner : by_pos_) {
    if (scanner->pos <= key) distance = key - scanner->pos;
  }
  return distance;
}

void ChunkCache::CollectVictims(const Need& need) {
  victims_.clear();
  const uint32_t share = pool_.limit() / std::max(1u, CountGroups());
  const uint64_t need_distance = DistanceTo(need.first_key);
  Group group;
  uint32_t group_blocks = 0;
  uint64_t nearest_pos = 0;
  uint64_t max_last = 0;
  size_t next = 0;
  for (const auto& [first_key, chunk] : by_key_) {
    for (; next < by_pos_.size() && by_pos_[next]->pos <= chunk->last_key; ++next) {
      if (group.Add(*by_pos_[next])) group_blocks = 0;
      nearest_pos = by_pos_[next]->pos;
      max_last = std::max(max_last, by_pos_[next]->last);
    }
    const bool on_the_way = group.Holds(*chunk);
    if (on_the_way) group_blocks += static_cast<uint32_t>(chunk->blocks.size());
    if (chunk->pins > 0 || !chunk->ready() || (on_the_way && group_blocks <= share)) continue;
    Victim victim;
    victim.chunk = chunk;
    victim.wanted = next > 0 && max_last >= first_key;
    victim.distance = first_key > nearest_pos ? first_key - nearest_pos : 0;
    const bool allowed = need.waited_for || (victim.wanted ? victim.distance > need_distance
                                                           : need.may_replace_passed);
    if (allowed) victims_.push_back(victim);
  }
  std::sort(victims_.begin(), victims_.end(), [](const Victim& a, const Victim& b) {
    if (a.wanted != b.wanted) return b.wanted;
    if (a.wanted) return a.distance > b.distance;
    return a.chunk->first_key > b.chunk->first_key;
  });
}

void ChunkCache::SortScanners(const std::vector<Scanner*>& attached) {
  by_pos_.clear();
  for (Scanner* scanner : attached) {
    if (!scanner->finishing) by_pos_.push_back(scanner);
  }
  std::sort(by_pos_.begin(), by_pos_.end(),
            [](const Scanner* a, const Scanner* b) { return a->pos < b->pos; });
}

bool ChunkCache::MakeRoom(const Need& need, const std::vector<Scanner*>& attached) {
  const uint32_t all = pool_.free_count();
  const uint32_t used = pool_.used_free_count();
  const bool few_chunks = by_key_.size() < MaxChunks(pool_.block_count());
  if (few_chunks && need.block_count <= (need.fresh == Fresh::kFirst ? all : used)) return true;
  SortScanners(attached);
  CollectVictims(need);
  if (need.fresh != Fresh::kFirst && EvictFor(need, used, attached)) return true;
  return need.fresh != Fresh::kNever && EvictFor(need, all, attached);
}

// As many victims as it takes when `free_blocks` can be had without; none when all are too few.
bool ChunkCache::EvictFor(const Need& need, uint32_t free_blocks,
                          const std::vector<Scanner*>& attached) {
  const size_t max_chunks = MaxChunks(pool_.block_count());
  const auto enough = [&](uint32_t gained, size_t count) {
    return free_blocks + gained >= need.block_count && by_key_.size() - count < max_chunks;
  };
  uint32_t gained = 0;
  size_t count = 0;
  for (; count < victims_.size() && !enough(gained, count); ++count) {
    gained += static_cast<uint32_t>(victims_[count].chunk->blocks.size());
  }
  if (!enough(gained, count)) return false;
  for (size_t i = 0; i < count; ++i) Remove(victims_[i].chunk, attached);
  return true;
}

bool ChunkCache::TakeBlocks(uint32_t count, std::vector<uint32_t>* blocks) {
  blocks->reserve(count);
  const uint32_t used = pool_.used_free_count();
  const bool books = share_ != nullptr && count > used;
  if (books && !share_->Book(uint64_t{count - used} * kBookedBytes)) return false;
  return pool_.Take(count, blocks);
}

void ChunkCache::FitShare(const std::vector<Scanner*>& attached) {
  if (share_ != nullptr) ShrinkTo(share_->LimitBytes(), attached);
}

void ChunkCache::ShrinkTo(uint64_t bytes, const std::vector<Scanner*>& attached) {
  const uint64_t limit = bytes / kBookedBytes;
  pool_.SetLimit(static_cast<uint32_t>(std::min<uint64_t>(limit, pool_.block_count())));
  Shrink(attached);
}

// To the limit, or as far as chunks may go.
void ChunkCache::Shrink(const std::vector<Scanner*>& attached) {
  Release();
  if (pool_.touched_count() > pool_.limit()) {
    SortScanners(attached);
    Need need;
    need.waited_for = true;
    CollectVictims(need);
    for (const Victim& victim : victims_) {
      if (pool_.touched_count() <= pool_.limit()) break;
      Remove(victim.chunk, attached);
      Release();
    }
  }
  while (!spare_.empty() && !has_spare_entry_bytes()) {
    Chunk* const chunk = spare_.back();
    spare_.pop_back();
    Delete(chunk);
  }
}

// What is free above the limit.
void ChunkCache::Release() {
  const uint32_t touched = pool_.touched_count();
  if (touched <= pool_.limit()) return;
  const uint32_t released = pool_.Release(touched - pool_.limit());
  if (released > 0 && share_ != nullptr) share_->Cancel(uint64_t{released} * kBookedBytes);
}

void ChunkCache::Insert(Chunk* chunk) {
  by_key_.emplace(chunk->first_key, chunk);
  chunk->cached = true;
  Account(chunk);
}

void ChunkCache::Remove(Chunk* chunk, const std::vector<Scanner*>& attached) {
  by_key_.erase(chunk->first_key);
  chunk->cached = false;
  for (Scanner* scanner : attached) {
    if (scanner->finishing || scanner->pos > chunk->last_key) continue;
    if (scanner->covered ? chunk->first_key <= scanner->last
                         : chunk->first_key < scanner->frontier) {
      scanner->covered = false;
      scanner->frontier = std::max(scanner->pos, chunk->first_key);
    }
  }
  if (chunk->pins == 0 && chunk->ready()) Drop(chunk);
}

bool ChunkCache::Unpin(Chunk* chunk, bool detached) {
  if (detached && --chunk->detached_pins == 0) {
    detached_blocks_ -= static_cast<uint32_t>(chunk->blocks.size());
  }
  if (--chunk->pins > 0) return false;
  if (!chunk->cached && chunk->ready()) Drop(chunk);
  return true;
}

void ChunkCache::MarkDetached(Chunk* chunk) {
  if (chunk->detached_pins++ == 0) detached_blocks_ += static_cast<uint32_t>(chunk->blocks.size());
}

}  // namespace engine_race
