// Page-sized, aligned bounce buffers for direct reads, pooled per store: one is taken for each
// read under way and put back after it. Grows to the largest number of reads ever under way at
// once and gives memory back when it is destroyed.
//
// Thread-safe; lock-free but for growing.
#ifndef ENGINE_RACE_IO_BUFFER_POOL_H_
#define ENGINE_RACE_IO_BUFFER_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"

namespace engine_race::io {

class BufferPool {
 public:
  static constexpr size_t kBufferBytes = kValueBytes;

  BufferPool() = default;

  // Holds one buffer of the pool.
  class Lease {
   public:
    Lease() = default;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->Push(number_);
    }
    char* data() const { return data_; }

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;
    uint32_t number_ = 0;
    char* data_ = nullptr;
  };

  // kOutOfMemory when no buffer is free and none can be made.
  Status Take(Lease* lease);

  uint64_t memory_bytes() const {
    // Relaxed: a statistic.
    return uint64_t{slab_count_.load(std::memory_order_relaxed)} * kSlabBuffers * kBufferBytes;
  }

 private:
  static constexpr uint32_t kSlabBuffers = 64;
  static constexpr uint32_t kMaxSlabs = 1024;
  static constexpr uint32_t kNone = ~uint32_t{0};

  struct Slab {
    Region memory;
    std::array<std::atomic<uint32_t>, kSlabBuffers> next;
  };

  std::atomic<uint32_t>& NextOf(uint32_t number) {
    return slabs_[number / kSlabBuffers]->next[number % kSlabBuffers];
  }
  bool Pop(uint32_t* number);
  void Push(uint32_t number);
  Status Grow();

  // A stack of free buffers: the number of its top, below a tag that changes with every
  // exchange, so that a stale top is never mistaken for the same one come back.
  std::atomic<uint64_t> head_{kNone};
  std::mutex grow_mutex_;
  std::atomic<uint32_t> slab_count_{0};
  // Filled in order under grow_mutex_, before any number in them is pushed; never changed after.
  std::array<std::unique_ptr<Slab>, kMaxSlabs> slabs_;
};

}  // namespace engine_race::io

#endif  // ENGINE_RACE_IO_BUFFER_POOL_H_
