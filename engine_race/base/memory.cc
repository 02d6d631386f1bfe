#include "engine_race/base/memory.h"

#include <sys/mman.h>

#include <cerrno>

#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Status Region::Allocate(size_t size_bytes, bool huge_pages, Region* region,
                        const Placement& placement) {
  const size_t size = RoundUp(size_bytes == 0 ? 1 : size_bytes, kIoAlignment);
  const size_t slack = huge_pages ? kHugePageBytes : 0;
  void* const raw = ::mmap(nullptr, size + slack, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return Status::FromErrno("mmap", errno);
  char* data = static_cast<char*>(raw);
  if (huge_pages) {
    const size_t address = reinterpret_cast<size_t>(raw);
    const size_t head = RoundUp(address, kHugePageBytes) - address;
    // Trimming cannot fail in a way that matters: what stays mapped is never touched.
    if (head > 0) ::munmap(data, head);
    if (slack > head) ::munmap(data + head + size, slack - head);
    data += head;
    // Advice only: without huge pages everything works, a little slower.
    ::madvise(data, size, MADV_HUGEPAGE);
  }
  // A refusal costs speed and nothing else.
  static_cast<void>(placement.Apply(data, size));
  region->Reset();
  region->data_ = data;
  region->size_ = size;
  return Status::Ok();
}

void Region::Reset() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Status SharedMapping::Map(int fd, size_t size_bytes, SharedMapping* mapping) {
  void* const data = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Status::FromErrno("mmap", errno);
  mapping->Reset();
  mapping->data_ = static_cast<char*>(data);
  mapping->size_ = size_bytes;
  return Status::Ok();
}

void SharedMapping::Reset() {
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

}  // namespace engine_race
