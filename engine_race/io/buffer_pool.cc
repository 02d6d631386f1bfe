#include "engine_race/io/buffer_pool.h"

#include <new>
#include <utility>

namespace engine_race::io {
namespace {

constexpr uint64_t kNumberMask = 0xffffffff;
constexpr uint64_t kTagStep = uint64_t{1} << 32;

uint64_t WithNumber(uint64_t head, uint32_t number) {
  return ((head & ~kNumberMask) + kTagStep) | number;
}

}  // namespace

bool BufferPool::Pop(uint32_t* number) {
  // Acquire pairs with the release in Push: the next number of the top is there.
  uint64_t head = head_.load(std::memory_order_acquire);
  while (true) {
    *number = static_cast<uint32_t>(head & kNumberMask);
    if (*number == kNone) return false;
    // Relaxed: ordered by head_; a value read too late fails the exchange by its tag.
    const uint32_t next = NextOf(*number).load(std::memory_order_relaxed);
    if (head_.compare_exchange_weak(head, WithNumber(head, next), std::memory_order_acquire,
                                    std::memory_order_acquire)) {
      return true;
    }
  }
}

void BufferPool::Push(uint32_t number) {
  uint64_t head = head_.load(std::memory_order_relaxed);
  do {
    NextOf(number).store(static_cast<uint32_t>(head & kNumberMask), std::memory_order_relaxed);
    // Release pairs with the acquire in Pop.
  } while (!head_.compare_exchange_weak(head, WithNumber(head, number), std::memory_order_release,
                                        std::memory_order_relaxed));
}

Status BufferPool::Take(Lease* lease) {
  uint32_t number = kNone;
  while (!Pop(&number)) ENGINE_RACE_RETURN_IF_ERROR(Grow());
  lease->pool_ = this;
  lease->number_ = number;
  lease->data_ =
      slabs_[number / kSlabBuffers]->memory.data() + number % kSlabBuffers * kBufferBytes;
  return Status::Ok();
}

Status BufferPool::Grow() {
  const std::lock_guard<std::mutex> lock(grow_mutex_);
  // Somebody else may have grown the pool, or put a buffer back, since the stack was empty.
  if ((head_.load(std::memory_order_acquire) & kNumberMask) != kNone) return Status::Ok();
  const uint32_t slab_number = slab_count_.load(std::memory_order_relaxed);
  if (slab_number == kMaxSlabs) return Status::OutOfMemory("too many reads under way at once");
  std::unique_ptr<Slab> slab(new (std::nothrow) Slab);
  if (slab == nullptr) return Status::OutOfMemory("no memory for bounce buffers");
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(kSlabBuffers * kBufferBytes, /*huge_pages=*/false, &slab->memory));
  slabs_[slab_number] = std::move(slab);
  slab_count_.store(slab_number + 1, std::memory_order_relaxed);
  for (uint32_t i = kSlabBuffers; i-- > 0;) Push(slab_number * kSlabBuffers + i);
  return Status::Ok();
}

}  // namespace engine_race::io
