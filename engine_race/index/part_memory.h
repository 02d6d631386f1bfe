// Where the arrays of parts live: slices of huge-page slabs while the index is built, blocks of
// their own later.
//
// A build touches a gigabyte of fresh memory and lookups then hit it at random: with 4 KiB pages
// the faults cost as much as the sorting, and each lookup pays for TLB misses. The pages of a slice
// whose part was replaced go back to the system by themselves and read as zeros from then on; the
// slab's address range stays until its last slice and its last holder go.
//
// MemoryBlock: movable owner, no synchronisation; blocks of one slab may be freed by different
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

class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(MemoryBlock&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        source_(std::exchange(other.source_, Source::kNone)),
        region_(std::move(other.region_)),
        slab_(std::move(other.slab_)) {}
  MemoryBlock& operator=(MemoryBlock&& other) noexcept;
  ~MemoryBlock() { Reset(); }

  // A block that belongs to nobody else, aligned to a cache line. A small one comes from the heap,
  // and a large one is a mapping of its own, at `placement`. kOutOfMemory when refused.
  static Status Allocate(size_t size_bytes, MemoryBlock* block, const Placement& placement = {});

  char* data() const { return data_; }
  // What it takes from the system, rounding included.
  size_t footprint_bytes() const { return size_; }
  // Who holds this can read the block's addresses even after it was freed. Null for a block that is
  // no slice of a slab.
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
  // Slabs of `slab_bytes`, or more for a larger block, in huge pages where the system has them.
  explicit SlabAllocator(size_t slab_bytes, const Placement& placement = {})
      : slab_bytes_(slab_bytes), placement_(placement) {}
  SlabAllocator(const SlabAllocator&) = delete;
  SlabAllocator& operator=(const SlabAllocator&) = delete;
  ~SlabAllocator() { Seal(); }

  // A slice of the current slab, or of a new one. kOutOfMemory when refused.
  Status Allocate(size_t size_bytes, MemoryBlock* block);

 private:
  // Gives back the end that was not used.
  void Seal() noexcept;

  const size_t slab_bytes_;
  const Placement placement_;
  std::shared_ptr<Region> slab_;
  size_t used_bytes_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PART_MEMORY_H_
