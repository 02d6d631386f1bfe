// Buffers of one size, cut from one region and used again and again.
//
// What was given back last is handed out first, so that pages never needed are never touched: the
// first touch of a page can cost more than to read it from the device, where a virtual machine's
// host has to find it first. Not synchronised, except touched_count and touched_bytes.
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
  // Takes the address space. kOutOfMemory when it is refused; the pool is then empty.
  // `huge_pages`: where the buffers are many enough to use them up. `placement`: see Region.
  Status Allocate(size_t block_bytes, uint32_t block_count, bool huge_pages = true,
                  const Placement& placement = {});

  // False, with nothing taken, when fewer are free.
  bool Take(uint32_t count, std::vector<uint32_t>* blocks);
  // Gives back all of *blocks and empties it.
  void Give(std::vector<uint32_t>* blocks);
  // A single one. Never fails while one is free.
  bool TakeOne(uint32_t* block) noexcept;
  void GiveOne(uint32_t block) noexcept;

  // How many blocks may hold memory from now on; at first all. Those that do are left alone.
  void SetLimit(uint32_t limit) { limit_ = std::min(limit, block_count_); }
  // Gives the memory of up to `count` free blocks back to the system; how many they were.
  uint32_t Release(uint32_t count);

  // Has the system find memory for bytes of the region before they are used. What they hold does
  // not change, and nothing happens where the system has no such call.
  void Populate(uint64_t offset, uint64_t size_bytes) const;

  char* base() const { return region_.data(); }
  char* data(uint32_t block) const {
    ENGINE_RACE_ASSERT(block < block_count_);
    return region_.data() + block * block_bytes_;
  }
  uint32_t block_count() const { return block_count_; }
  uint64_t size_bytes() const { return uint64_t{block_count_} * block_bytes_; }
  uint32_t limit() const { return limit_; }
  uint32_t free_count() const {
    return used_free_count() + (limit_ > touched_count() ? limit_ - touched_count() : 0);
  }
  // Free ones that hold memory.
  uint32_t used_free_count() const { return static_cast<uint32_t>(free_.size()); }
  // Those that hold memory.
  uint32_t touched_count() const { return touched_.load(); }
  uint64_t touched_bytes() const { return uint64_t{touched_.load()} * block_bytes_; }

 private:
  // With a free block there is.
  uint32_t TakeFree() noexcept;
  bool IsConsistent() const {
    return fresh_begin_ <= block_count_ && free_.size() + released_.size() <= fresh_begin_ &&
           free_.size() <= touched_count();
  }

  Region region_;
  size_t block_bytes_ = 0;
  uint32_t block_count_ = 0;
  uint32_t limit_ = 0;
  // Blocks from here up were never handed out.
  uint32_t fresh_begin_ = 0;
  std::atomic<uint32_t> touched_{0};
  std::vector<uint32_t> free_;
  // Their memory was given back.
  std::vector<uint32_t> released_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_BUFFER_POOL_H_
