#include "engine_race/scan/chunk_cache.h"

#include <algorithm>
#include <limits>
#include <new>

#include "engine_race/base/assert.h"

namespace engine_race {

Status ChunkCache::Allocate(uint32_t buffer_count, MemoryShare* share, const Placement& placement) {
  share_ = share;
  return pool_.Allocate(layout_.buffer_bytes(), buffer_count, /*huge_pages=*/true, placement);
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
  ENGINE_RACE_ASSERT(!chunk->cached && chunk->pins == 0);
  GiveBuffers(0, &chunk->buffers);
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

void ChunkCache::FreeRange(uint64_t key, uint64_t* low, uint64_t* high) const {
  ENGINE_RACE_ASSERT(Find(key) == nullptr);
  ChunkMap::Iterator after = chunks_.FirstEndingFrom(key);
  *high = after == chunks_.end() ? std::numeric_limits<uint64_t>::max() : after->first_key - 1;
  *low = after == chunks_.begin() ? 0 : (--after)->last_key + 1;
}

bool ChunkCache::TakeBuffers(uint32_t count, std::vector<uint32_t>* buffers) {
  buffers->reserve(count);
  const uint32_t used = pool_.used_free_count();
  const bool books = share_ != nullptr && count > used;
  if (books && !share_->Book((count - used) * booked_bytes())) return false;
  return pool_.Take(count, buffers);
}

void ChunkCache::SetLimit(uint64_t bytes) {
  pool_.SetLimit(
      static_cast<uint32_t>(std::min<uint64_t>(bytes / booked_bytes(), pool_.buffer_count())));
}

bool ChunkCache::FitLimit() {
  while (!spare_.empty() && !has_spare_entry_bytes()) {
    Chunk* const chunk = spare_.back();
    spare_.pop_back();
    Delete(chunk);
  }
  const uint32_t touched = pool_.touched_count();
  if (touched <= pool_.limit()) return true;
  const uint32_t released = pool_.Release(touched - pool_.limit());
  if (released > 0 && share_ != nullptr) share_->Cancel(released * booked_bytes());
  return pool_.touched_count() <= pool_.limit();
}

void ChunkCache::Insert(Chunk* chunk) {
  ENGINE_RACE_ASSERT(!chunk->cached && chunk->first_key <= chunk->last_key);
  // FreeRange has told the builder where other chunks are.
  ENGINE_RACE_ASSERT(Find(chunk->first_key) == nullptr && Find(chunk->last_key) == nullptr);
  chunks_.Insert(chunk);
  chunk->cached = true;
  Account(chunk);
}

void ChunkCache::Remove(Chunk* chunk) {
  ENGINE_RACE_ASSERT(chunk->cached && Find(chunk->first_key) == chunk);
  chunks_.Remove(chunk);
  chunk->cached = false;
  if (chunk->pins == 0) Drop(chunk);
}

bool ChunkCache::Unpin(Chunk* chunk) {
  ENGINE_RACE_ASSERT(chunk->pins > 0);
  if (--chunk->pins > 0) return false;
  if (!chunk->cached) Drop(chunk);
  return true;
}

}  // namespace engine_race
