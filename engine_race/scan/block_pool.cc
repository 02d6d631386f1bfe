#include "engine_race/scan/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace engine_race {

Status BlockPool::Allocate(size_t block_bytes, uint32_t block_count) {
  try {
    free_.reserve(block_count);
    released_.reserve(block_count);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("list of scan buffers");
  }
  // A few small buffers would touch far more in huge pages than they need.
  constexpr size_t kMinHugeBytes = 4 * 1024 * 1024;
  const size_t size_bytes = block_bytes * block_count;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size_bytes, size_bytes >= kMinHugeBytes, &region_));
  block_bytes_ = block_bytes;
  block_count_ = limit_ = block_count;
  return Status::Ok();
}

void BlockPool::Populate(uint64_t offset, uint64_t size_bytes) const {
#ifndef MADV_POPULATE_WRITE
  constexpr int MADV_POPULATE_WRITE = 23;  // Linux 5.14
#endif
  // Only advice: without it the pages come when they are used.
  (void)madvise(base() + offset, std::min(size_bytes, this->size_bytes() - offset),
                MADV_POPULATE_WRITE);
}

bool BlockPool::Take(uint32_t count, std::vector<uint32_t>* blocks) {
  if (count > free_count()) return false;
  blocks->reserve(blocks->size() + count);
  for (uint32_t i = 0; i < count; ++i) {
    std::vector<uint32_t>& from = free_.empty() ? released_ : free_;
    if (free_.empty()) ++touched_;
    if (from.empty()) {
      blocks->push_back(fresh_begin_++);
    } else {
      blocks->push_back(from.back());
      from.pop_back();
    }
  }
  return true;
}

uint32_t BlockPool::Release(uint32_t count) {
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

void BlockPool::Give(std::vector<uint32_t>* blocks) {
  free_.insert(free_.end(), blocks->begin(), blocks->end());
  blocks->clear();
}

}  // namespace engine_race
