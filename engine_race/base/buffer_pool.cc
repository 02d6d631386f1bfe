#include "engine_race/base/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "engine_race/base/sys_mapping.h"

namespace engine_race {

Status BufferPool::Allocate(size_t buffer_bytes, uint32_t buffer_count, bool huge_pages,
                            const Placement& placement) {
  try {
    free_.reserve(buffer_count);
    released_.reserve(buffer_count);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("list of buffers");
  }
  // A few small buffers would touch far more in huge pages than they need.
  constexpr size_t kMinHugeBytes = 4 * 1024 * 1024;
  const size_t size_bytes = buffer_bytes * buffer_count;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(size_bytes, huge_pages && size_bytes >= kMinHugeBytes, &region_, placement));
  buffer_bytes_ = buffer_bytes;
  buffer_count_ = limit_ = buffer_count;
  return Status::Ok();
}

void BufferPool::Populate(uint64_t offset, uint64_t size_bytes) const {
  bool populated = false;
  // Only advice: without it the pages come when they are used.
  static_cast<void>(sys::PopulateForStores(
      base() + offset, std::min(size_bytes, this->size_bytes() - offset), &populated));
}

bool BufferPool::Take(uint32_t count, std::vector<uint32_t>* buffers) {
  if (count > free_count()) return false;
  buffers->reserve(buffers->size() + count);
  for (uint32_t i = 0; i < count; ++i) buffers->push_back(TakeFree());
  return true;
}

bool BufferPool::TakeOne(uint32_t* buffer) noexcept {
  if (free_count() == 0) return false;
  *buffer = TakeFree();
  return true;
}

uint32_t BufferPool::TakeFree() noexcept {
  ENGINE_RACE_ASSERT(IsConsistent());
  std::vector<uint32_t>& from = free_.empty() ? released_ : free_;
  if (free_.empty()) ++touched_;
  if (from.empty()) {
    ENGINE_RACE_ASSERT(fresh_begin_ < buffer_count_);
    return fresh_begin_++;
  }
  const uint32_t buffer = from.back();
  from.pop_back();
  return buffer;
}

uint32_t BufferPool::Release(uint32_t count) {
  count = std::min(count, used_free_count());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t buffer = free_.back();
    free_.pop_back();
    // Where the system refuses, the memory stays until the buffer is used again.
    (void)madvise(data(buffer), buffer_bytes_, MADV_DONTNEED);
    released_.push_back(buffer);
  }
  touched_ -= count;
  return count;
}

void BufferPool::Give(std::vector<uint32_t>* buffers) {
  free_.insert(free_.end(), buffers->begin(), buffers->end());
  buffers->clear();
  ENGINE_RACE_ASSERT(IsConsistent());
}

void BufferPool::GiveOne(uint32_t buffer) noexcept {
  // There is room for all of them.
  free_.push_back(buffer);
  ENGINE_RACE_ASSERT(IsConsistent());
}

}  // namespace engine_race
