// RAII for the memory that direct I/O and shared mappings need.
//
// Owners, movable, not copyable; no internal synchronisation.
#ifndef ENGINE_RACE_BASE_MEMORY_H_
#define ENGINE_RACE_BASE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "engine_race/base/placement.h"
#include "engine_race/base/status.h"

namespace engine_race {

// The alignment that O_DIRECT asks of addresses, sizes and offsets, on every device met so far.
inline constexpr size_t kIoAlignment = 4096;

// The deleter of memory from std::aligned_alloc.
struct FreeMemory {
  void operator()(char* data) const { std::free(data); }
};

// Zero-filled anonymous memory, page-aligned, given back to the system as a whole. Pages cost
// nothing until they are touched.
class Region {
 public:
  Region() = default;
  Region(Region&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Region& operator=(Region&& other) noexcept;
  ~Region() { Reset(); }

  // `huge_pages` asks for transparent huge pages where the system grants them; the region is then
  // aligned to 2 MiB. Pages lie as `placement` says, unless the system refuses that.
  // kOutOfMemory when the system refuses.
  static Status Allocate(size_t size_bytes, bool huge_pages, Region* region,
                         const Placement& placement = {});

  char* data() const { return data_; }
  size_t size() const { return size_; }
  void Reset();

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

// A file mapped MAP_SHARED. The file must be at least as long, and its space reserved before it is
// stored into, or a full disk is a SIGBUS.
class SharedMapping {
 public:
  SharedMapping() = default;
  SharedMapping(SharedMapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SharedMapping& operator=(SharedMapping&& other) noexcept;
  ~SharedMapping() { Reset(); }

  static Status Map(int fd, size_t size_bytes, SharedMapping* mapping);

  char* data() const { return data_; }
  size_t size() const { return size_; }
  void Reset();

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_BASE_MEMORY_H_
