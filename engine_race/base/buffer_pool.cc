#include "engine_race/base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace engine_race {

Status BufferPool::Allocate(size_t block_bytes, uint32_t block_count, bool huge_pages,
                            const Placement& placement) {
  try {
    free_.reserve(block_count);
    released_.reserve(block_count);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("list of buffers");
  }
  // A few small buffers would touch far more in huge pages than they need.
  constexpr size_t kMinHugeBytes = 4 * 1024 * 1024;
  const size_t size_bytes = block_bytes * block_count;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(size_bytes, huge_pages && size_bytes >= kMinHugeBytes, &region_, placement));
  block_bytes_ = block_bytes;
  block_count_ = limit_ = block_count;
  return Status::Ok();
}

void BufferPool::Populate(uint64_t offset, uint64_t size_bytes) const {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif
  // Only advice: without it the pages come when they are used.
  (void)madvise(base() + offset, std::min(size_bytes, this->size_bytes() - offset),
                MADV_POPULATE_WRITE);
}

bool BufferPool::Take(uint32_t count, std::vector<uint32_t>* blocks) {
  if (count > free_count()) return false;
  blocks->reserve(blocks->size() + count);
  for (uint32_t i = 0; i < count; ++i) blocks->push_back(TakeFree());
  return true;
}

bool BufferPool::TakeOne(uint32_t* block) noexcept {
  if (free_count() == 0) return false;
  *block = TakeFree();
  return true;
}

uint32_t BufferPool::TakeFree() noexcept {
  ENGINE_RACE_ASSERT(IsConsistent());
  std::vector<uint32_t>& from = free_.empty() ? released_ : free_;
  if (free_.empty()) ++touched_;
  if (from.empty()) {
    ENGINE_RACE_ASSERT(fresh_begin_ < block_count_);
    return fresh_begin_++;
  }
  const uint32_t block = from.back();
  from.pop_back();
  return block;
}

uint32_t BufferPool::Release(uint32_t count) {
  count = std::min(count, used_free_count());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t block = free_.back();
    free_.pop_back();
    // Where the system refuses, the memory stays until the block is used again.
    (void)madvise(data(block), block_bytes_, MADV_DONTNEED);
    released_.push_back(block);
  }
  touched_ -= count;
  return count;
}

void BufferPool::Give(std::vector<uint32_t>* blocks) {
  free_.insert(free_.end(), blocks->begin(), blocks->end());
  blocks->clear();
  ENGINE_RACE_ASSERT(IsConsistent());
}

void BufferPool::GiveOne(uint32_t block) noexcept {
  // There is room for all of them.
  free_.push_back(block);
  ENGINE_RACE_ASSERT(IsConsistent());
}

}  // namespace engine_race
