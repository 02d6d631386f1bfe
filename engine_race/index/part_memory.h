// The memory of the arrays of parts: slices of huge-page slabs while the index is built, and
// separate allocations later.
//
// A build touches a gigabyte of fresh memory, and lookups then read it at random. With 4 KiB pages
// the page faults would cost as much as the sorting, and each lookup would miss the TLB. When the
// part of a slice is replaced, the slice's pages go back to the system. The slab's address range
// stays mapped until its last slice is gone.
//
// PartSlice: movable owner, not synchronised; different threads may free slices of one slab.
// SlabAllocator: one thread.
#ifndef ENGINE_RACE_INDEX_PART_MEMORY_H_
#define ENGINE_RACE_INDEX_PART_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"

namespace engine_race {

class PartSlice {
 public:
  PartSlice() = default;
  PartSlice(PartSlice&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        source_(std::exchange(other.source_, Source::kNone)),
        region_(std::move(other.region_)),
        slab_(std::move(other.slab_)) {}
  PartSlice& operator=(PartSlice&& other) noexcept;
  ~PartSlice() { Reset(); }

  // Makes a slice outside any slab, aligned to a cache line. A small one comes from the heap, and
  // a large one is a mapping of its own, at `placement`. kOutOfMemory.
  static Status Allocate(size_t size_bytes, PartSlice* slice, const Placement& placement);

  char* data() const { return data_; }
  // The memory that the slice takes from the system, rounding included.
  size_t footprint_bytes() const { return size_; }
  void Reset() noexcept;

 private:
  friend class SlabAllocator;
  enum class Source : uint8_t { kNone, kHeap, kRegion, kSlab };

  char* data_ = nullptr;
  size_t size_ = 0;
  Source source_ = Source::kNone;
  Region region_;
  std::shared_ptr<Region> slab_;
};

class SlabAllocator {
 public:
  // Slabs have `slab_bytes`, or more for a larger slice, in huge pages where the system has them.
  explicit SlabAllocator(size_t slab_bytes, const Placement& placement = {})
      : slab_bytes_(slab_bytes), placement_(placement) {}
  SlabAllocator(const SlabAllocator&) = delete;
  SlabAllocator& operator=(const SlabAllocator&) = delete;
  ~SlabAllocator() { Seal(); }

  const Placement& placement() const { return placement_; }

  // Makes a slice of the current slab, or of a new one. kOutOfMemory.
  Status Allocate(size_t size_bytes, PartSlice* slice);

  // Gives the unused end of the slab back to the system, and lets the slab go.
  void Seal() noexcept;

 private:
  const size_t slab_bytes_;
  const Placement placement_;
  std::shared_ptr<Region> slab_;
  size_t used_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_MEMORY_H_
