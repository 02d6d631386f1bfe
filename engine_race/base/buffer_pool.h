// Buffers of one size, cut from one region and used again and again.
//
// The pool hands out the buffer that was given back last, so it touches no more pages than it
// needs. In a virtual machine whose host must find the memory first, a first touch can cost more
// than reading the page from the device. Not synchronised, except touched_count and touched_bytes.
#ifndef ENGINE_RACE_BASE_BUFFER_POOL_H_
#define ENGINE_RACE_BASE_BUFFER_POOL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine_race/base/assert.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"

namespace engine_race {

class BufferPool {
 public:
  // Reserves the address space. kOutOfMemory when it is refused; the pool is then empty.
  // `huge_pages`: where the buffers are many enough to use them up. `placement`: see Region.
  Status Allocate(size_t buffer_bytes, uint32_t buffer_count, bool huge_pages = true,
                  const Placement& placement = {});

  // False, with nothing taken, when fewer are free.
  bool Take(uint32_t count, std::vector<uint32_t>* buffers);
  // Gives back all of *buffers and empties it.
  void Give(std::vector<uint32_t>* buffers);
  // A single one. Never fails while one is free.
  bool TakeOne(uint32_t* buffer) noexcept;
  void GiveOne(uint32_t buffer) noexcept;

  // How many buffers may hold memory from now on; at first all. Buffers that hold memory already
  // keep it.
  void SetLimit(uint32_t limit) { limit_ = std::min(limit, buffer_count_); }
  // Gives the memory of up to `count` free buffers back to the system. Returns how many they were.
  uint32_t Release(uint32_t count);

  // Has the system find memory for bytes of the region before they are used. Their content does not
  // change. Does nothing where the system has no such call.
  void Populate(uint64_t offset, uint64_t size_bytes) const;

  char* base() const { return region_.data(); }
  char* data(uint32_t buffer) const {
    ENGINE_RACE_ASSERT(buffer < buffer_count_);
    return region_.data() + buffer * buffer_bytes_;
  }
  uint32_t buffer_count() const { return buffer_count_; }
  uint64_t size_bytes() const { return uint64_t{buffer_count_} * buffer_bytes_; }
  uint32_t limit() const { return limit_; }
  uint32_t free_count() const {
    return used_free_count() + (limit_ > touched_count() ? limit_ - touched_count() : 0);
  }
  // Free buffers that hold memory.
  uint32_t used_free_count() const { return static_cast<uint32_t>(free_.size()); }
  // All buffers that hold memory.
  uint32_t touched_count() const { return touched_.load(); }
  uint64_t touched_bytes() const { return uint64_t{touched_.load()} * buffer_bytes_; }

 private:
  // Only while a buffer is free.
  uint32_t TakeFree() noexcept;
  bool IsConsistent() const {
    return fresh_begin_ <= buffer_count_ && free_.size() + released_.size() <= fresh_begin_ &&
           free_.size() <= touched_count();
  }

  Region region_;
  size_t buffer_bytes_ = 0;
  uint32_t buffer_count_ = 0;
  uint32_t limit_ = 0;
  // Buffers from here up were never handed out.
  uint32_t fresh_begin_ = 0;
  std::atomic<uint32_t> touched_{0};
  std::vector<uint32_t> free_;
  // Free buffers whose memory was given back to the system.
  std::vector<uint32_t> released_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_BUFFER_POOL_H_
