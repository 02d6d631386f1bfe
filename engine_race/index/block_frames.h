// Blocks of the index in frames. Owner of the frames' kind kBlock: knows the swips that lead to
// them, and which blocks other frames are reached through.
//
// A block of records with words that lead to frames is in use: hot values are reached through it.
// The frame of an extent's first block counts the frames of its other blocks. So parents are not
// evicted before their children, unless the pool must give memory back. Hot values that were
// reached through an evicted block are orphans.
//
// Thread safety: FencesOf and BlockOf from inside the epoch or under the pool's mutex, with the
// bucket's lock. Every other call from any thread, outside the epoch and without an index lock.
#ifndef ENGINE_RACE_INDEX_BLOCK_FRAMES_H_
#define ENGINE_RACE_INDEX_BLOCK_FRAMES_H_

#include <cstdint>
#include <memory>

#include "engine_race/base/function_ref.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/l1/frame_owner.h"

namespace engine_race {

class BlockFrames final : public l1::FrameOwner {
 public:
  // `cache` outlives it; null: no block is kept in memory.
  explicit BlockFrames(l1::FrameCache* cache);
  BlockFrames(const BlockFrames&) = delete;
  BlockFrames& operator=(const BlockFrames&) = delete;
  // No lookup may be running, and no run may have been left in a part.
  ~BlockFrames();

  l1::FrameCache* cache() const { return cache_; }

  // The first block of a run's extent, in its frame; null data if it is in none.
  struct Fences {
    const char* data = nullptr;
    uint32_t frame = 0;
  };
  Fences FencesOf(const PagedRun& run) const;
  // A block of records of the same extent; null if it is in no frame.
  const char* BlockOf(const Fences& fences, uint32_t block) const;

  // Copies a block that was read into a frame, if it is worth one. `swizzle(frame)` is called under
  // the pool's mutex. It finds the run and calls Swizzle, or answers false if the run is gone.
  void Offer(const l1::ExtentId& extent, uint32_t block, const char* data,
             FunctionRef<bool(uint32_t frame)> swizzle) noexcept;
  // Makes the frame reachable through the run. With the bucket's lock and the pool's mutex.
  bool Swizzle(const PagedRun& run, uint32_t block, uint32_t frame) noexcept;
  // Evicts all frames of a run that no lookup can find any more.
  void Evict(const PagedRun& run) noexcept;
  // Evicts frames that memory has no room for any more.
  void FitLimit() noexcept;

  // The calls of FrameOwner.
  Cooled Cool(uint32_t frame, l1::FrameInfo* info) noexcept override;
  bool WasHeated(uint32_t frame, l1::FrameInfo* info) noexcept override;
  bool Unswizzle(uint32_t frame, l1::FrameInfo* info, bool only_cooling) noexcept override;
  void Release(uint32_t frame, l1::FrameInfo* info) noexcept override;

 private:
  bool HasHotWords(uint32_t frame, const l1::FrameInfo& info) const noexcept;

  l1::FrameCache* const cache_;
  l1::BlockOwner blocks_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BLOCK_FRAMES_H_
