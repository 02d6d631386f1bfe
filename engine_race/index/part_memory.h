// Where the arrays of parts live: slices of huge-page slabs while the index is built, memory of
// their own later.
//
// A build touches a gigabyte of fresh memory and lookups then hit it at random: with 4 KiB pages
// the faults cost as much as the sorting, and each lookup pays for TLB misses. The pages of a slice
// whose part was replaced go back to the system by themselves and read as zeros from then on; the
// slab's address range stays until its last slice and its last holder go.
//
// PartMemory: movable owner, no synchronisation; slices of one slab may be freed by different
// threads. SlabAllocator: one thread.
#ifndef ENGINE_RACE_INDEX_PART_MEMORY_H_
#define ENGINE_RACE_INDEX_PART_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"

namespace engine_race {

class PartMemory {
 public:
  PartMemory() = default;
  PartMemory(PartMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        source_(std::exchange(other.source_, Source::kNone)),
        region_(std::move(other.region_)),
        slab_(std::move(other.slab_)) {}
  PartMemory& operator=(PartMemory&& other) noexcept;
  ~PartMemory() { Reset(); }

  // Memory that belongs to nobody else, aligned to a cache line: from the heap when small, a
  // mapping of its own when large. kOutOfMemory when refused.
  static Status Allocate(size_t size_bytes, PartMemory* memory);

  char* data() const { return data_; }
  // What it takes from the system, rounding included.
  size_t footprint_bytes() const { return size_; }
  // A holder of this can read the addresses even after the memory was freed. Null for memory that
  // is no slice of a slab.
  std::shared_ptr<const Region> mapping() const { return slab_; }
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
  // Slabs of `slab_bytes`, or more for a larger slice, in huge pages where the system has them.
  explicit SlabAllocator(size_t slab_bytes) : slab_bytes_(slab_bytes) {}
  SlabAllocator(const SlabAllocator&) = delete;
  SlabAllocator& operator=(const SlabAllocator&) = delete;
  ~SlabAllocator() { Seal(); }

  // A slice of the current slab, or of a new one. kOutOfMemory when refused.
  Status Allocate(size_t size_bytes, PartMemory* memory);

 private:
  // Gives back the end that was not used.
  void Seal() noexcept;

  const size_t slab_bytes_;
  std::shared_ptr<Region> slab_;
  size_t used_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_MEMORY_H_
