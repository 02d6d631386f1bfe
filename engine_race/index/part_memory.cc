#include "engine_race/index/part_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

constexpr size_t kCacheLineBytes = 64;
constexpr size_t kPageBytes = kIoAlignment;
// Slices from this size on are whole pages, so that freeing one gives all of it back.
constexpr size_t kLargeBytes = size_t{64} << 10;

size_t Footprint(size_t size_bytes) {
  return RoundUp(size_bytes, size_bytes >= kLargeBytes ? kPageBytes : kCacheLineBytes);
}

// Gives back the pages that lie wholly in a slice of a slab. Pages that the system refuses stay
// until the slab is unmapped.
void ReturnPages(char* data, size_t size) {
  const size_t address = reinterpret_cast<size_t>(data);
  const size_t begin = RoundUp(address, kPageBytes) - address;
  const size_t end = (address + size) / kPageBytes * kPageBytes - address;
  if (begin < end && begin < size) ::madvise(data + begin, end - begin, MADV_DONTNEED);
}

}  // namespace

PartSlice& PartSlice::operator=(PartSlice&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    source_ = std::exchange(other.source_, Source::kNone);
    region_ = std::move(other.region_);
    slab_ = std::move(other.slab_);
  }
  return *this;
}

Status PartSlice::Allocate(size_t size_bytes, PartSlice* slice, const Placement& placement) {
  slice->Reset();
  const size_t size = Footprint(std::max<size_t>(size_bytes, 1));
  if (size >= kLargeBytes) {
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(size, false, &slice->region_, placement));
    slice->data_ = slice->region_.data();
    slice->source_ = Source::kRegion;
  } else {
    slice->data_ = static_cast<char*>(std::aligned_alloc(kCacheLineBytes, size));
    if (slice->data_ == nullptr) return Status::OutOfMemory("index: no memory for a part");
    slice->source_ = Source::kHeap;
  }
  slice->size_ = size;
  return Status::Ok();
}

void PartSlice::Reset() noexcept {
  if (source_ == Source::kHeap) {
    std::free(data_);
  } else if (source_ == Source::kSlab) {
    ReturnPages(data_, size_);
  }
  region_.Reset();
  slab_.reset();
  data_ = nullptr;
  size_ = 0;
  source_ = Source::kNone;
}

Status SlabAllocator::Allocate(size_t size_bytes, PartSlice* slice) {
  const size_t size = Footprint(std::max<size_t>(size_bytes, 1));
  slice->Reset();
  const size_t align = size >= kLargeBytes ? kPageBytes : kCacheLineBytes;
  size_t begin = RoundUp(used_bytes_, align);
  if (slab_ == nullptr || begin + size > slab_->size()) {
    Seal();
    Region region;
    ENGINE_RACE_RETURN_IF_ERROR(
        Region::Allocate(std::max(slab_bytes_, size), true, &region, placement_));
    try {
      slab_ = std::make_shared<Region>(std::move(region));
    } catch (const std::bad_alloc&) {
      return Status::OutOfMemory("index: no memory for a slab");
    }
    begin = 0;
  }
  slice->data_ = slab_->data() + begin;
  slice->size_ = size;
  slice->source_ = PartSlice::Source::kSlab;
  slice->slab_ = slab_;
  used_bytes_ = begin + size;
  ENGINE_RACE_ASSERT(used_bytes_ <= slab_->size() && begin % align == 0);
  return Status::Ok();
}

void SlabAllocator::Seal() noexcept {
  if (slab_ == nullptr) return;
  ENGINE_RACE_ASSERT(used_bytes_ <= slab_->size());
  ReturnPages(slab_->data() + used_bytes_, slab_->size() - used_bytes_);
  // Otherwise the kernel's background thread would fill the holes of freed slices with huge pages
  // again. This is only advice; huge pages that exist stay.
  ::madvise(slab_->data(), slab_->size(), MADV_NOHUGEPAGE);
  slab_.reset();
  used_bytes_ = 0;
}

}  // namespace engine_race
