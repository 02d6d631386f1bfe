// Memory and loaders of scans that read for themselves, used again by one after another.
//
// A window is a buffer of BufferLayout, of about 256 KiB or for one value. Short scans have one,
// from a few that are always there. Long walks have several, which the coordinator lends from the
// memory of shared chunks.
//
// Thread-safe. It owns all loaders, lent ones too, and waits for their reads when it is destroyed.
// The coordinator outlives it.
#ifndef ENGINE_RACE_SCAN_WINDOW_POOL_H_
#define ENGINE_RACE_SCAN_WINDOW_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine_race/base/buffer_pool.h"
#include "engine_race/base/memory.h"
#include "engine_race/base/status.h"
#include "engine_race/scan/chunk_loader.h"
#include "engine_race/scan/coordinator.h"
#include "engine_race/scan/load_plan.h"
#include "engine_race/scan/scan_context.h"

namespace engine_race {

// The windows of one reading.
struct Windows {
  // Where position `at` of a plan lies.
  char* At(const BufferLayout& layout, uint32_t at) const {
    return base + layout.OffsetOf(layout.PositionIn(buffers, at));
  }

  // Window i lies at base + buffers[i] * BufferLayout::buffer_bytes().
  std::vector<uint32_t> buffers;
  char* base = nullptr;
  bool are_lent = false;  // by the coordinator
  // The only window, smaller than others, when the pool had none.
  std::unique_ptr<char, FreeMemory> small;
  uint32_t position_count = 0;
};

class WindowPool {
 public:
  // Refused memory leaves a pool without windows.
  WindowPool(ScanContext* context, Coordinator* coordinator, uint32_t window_count);

  // Makes *windows hold `position_count` positions, or fewer where less memory is free. Gives back
  // those that it held. With `may_allocate` it allocates a small window rather than none.
  // kOutOfMemory, std::bad_alloc.
  Status TakeWindows(uint32_t position_count, bool may_allocate, Windows* windows);
  // Gives back what `position_count` positions do not need.
  void TrimWindows(uint32_t position_count, Windows* windows) noexcept;
  void GiveWindows(Windows* windows) noexcept;

  // Null when enough are in use: then blocking reads must do. Loaders `ahead` are lent for as long
  // as a scan does not go on, so some are kept for others.
  ChunkLoader* TakeLoader(bool ahead) noexcept;
  // Takes the loader back, with no read in flight.
  void GiveLoader(ChunkLoader* loader) noexcept;

  // Without lent buffers, which the coordinator counts.
  uint64_t memory_bytes() const { return pool_.touched_bytes() + small_bytes_.load(); }

 private:
  // Takes a window of the pool. Unless it `is_needed`, only while more than half of them are free.
  bool TakeOne(bool is_needed, Windows* windows);
  Status AllocateSmall(Windows* windows);
  // Of a window from the heap.
  uint32_t SmallBytes() const;

  ScanContext* const context_;
  Coordinator* const coordinator_;
  std::mutex mutex_;
  BufferPool pool_;
  std::atomic<uint64_t> small_bytes_{0};
  std::vector<ChunkLoader*> free_loaders_;
  // Last member: reads in flight end before their memory does.
  std::vector<std::unique_ptr<ChunkLoader>> loaders_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_WINDOW_POOL_H_
