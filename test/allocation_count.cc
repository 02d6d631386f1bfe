#include "test/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

#include "test/test_util.h"

namespace engine_race::test {

namespace {
constinit thread_local uint64_t allocation_count = 0;
}  // namespace

uint64_t AllocationCount() { return allocation_count; }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

void* Allocate(size_t size, size_t alignment) {
  ++allocation_count;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const data = Allocate(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace
#endif

}  // namespace engine_race::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

using engine_race::test::Allocate;
using engine_race::test::AllocateOrThrow;

void* operator new(size_t size) { return AllocateOrThrow(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { std::free(data); }

#endif
