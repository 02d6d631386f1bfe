#include "test/index/refused_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace engine_race::test {
namespace {

// The requests until one is refused, counted down to zero. Below zero none is refused.
thread_local int64_t requests_left = -1;
thread_local void (*watch_request)(size_t size) = nullptr;

bool Refused() { return requests_left >= 0 && requests_left-- == 0; }

void* Allocate(size_t size, size_t alignment) {
  if (watch_request != nullptr) watch_request(size);
  if (Refused()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const data = Allocate(size, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

RefuseMemory::RefuseMemory(uint64_t passed_count) {
  requests_left = static_cast<int64_t>(passed_count);
}
RefuseMemory::~RefuseMemory() { requests_left = -1; }
bool RefuseMemory::refused() const { return requests_left < 0; }

WatchMemory::WatchMemory(void (*watch)(size_t size)) { watch_request = watch; }
WatchMemory::~WatchMemory() { watch_request = nullptr; }

RefuseThreads::RefuseThreads() {
  // Larger than what the kernel can map.
  constexpr size_t kStackBytes = size_t{1} << 47;
  pthread_getattr_default_np(&before_);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}
RefuseThreads::~RefuseThreads() {
  pthread_setattr_default_np(&before_);
  pthread_attr_destroy(&before_);
}

}  // namespace engine_race::test

// These operators replace those of the whole program.
using engine_race::test::Allocate;
using engine_race::test::AllocateOrThrow;

void* operator new(size_t size) { return AllocateOrThrow(size, 1); }
void* operator new[](size_t size) { return AllocateOrThrow(size, 1); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete[](void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, size_t, std::align_val_t) noexcept { std::free(data); }
void operator delete[](void* data, size_t, std::align_val_t) noexcept { std::free(data); }
