// Blocks of the index in frames. Owner of the frames' kind kBlock: knows the swips that lead to
// them, and which blocks other frames are reached through.
//
// A block of records with words that lead to frames of the same cache is in use: hot values are
// reached through it. Values in a cache of their own keep no block in this one: they may stay for
// long without being its victims. The frame of an extent's first block counts the frames of its
// other blocks. So parents are not evicted before their children, unless the pool must give memory
// back. Hot values that were reached through an evicted block are orphans.
//
// Thread safety: FencesOf, BlockOf and Locate from inside the epoch, or with the bucket's lock and
// the pool's mutex. Every other call from any thread, outside the epoch and without an index lock.
#ifndef ENGINE_RACE_INDEX_BLOCK_FRAMES_H_
#define ENGINE_RACE_INDEX_BLOCK_FRAMES_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/base/assert.h"
#include "engine_race/base/function_ref.h"
#include "engine_race/base/swip.h"
#include "engine_race/index/paged_run.h"
#include "engine_race/index/run_window.h"
#include "engine_race/l1/block_owner.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/l1/frame_owner.h"
#include "engine_race/l1/key_block.h"

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

  // The first block of a run's extent, in its frame; null if it is in none.
  [[gnu::always_inline]] const char* FencesOf(const PagedRun& run) const {
    return DataOf(&run.fences);
  }
  // A block of records of a run whose fences are in a frame; null if it is in none.
  [[gnu::always_inline]] const char* BlockOf(const PagedRun& run, uint32_t block) const {
    ENGINE_RACE_ASSERT(block > 0 && block <= run.block_count);
    return DataOf(SwipsOf(run) + (block - 1));
  }

  // A lookup in steps. Each fetches what the next one reads, so that the steps of many lookups can
  // wait for memory together. They are false, or null, if the run does not have the key, or if a
  // block that leads to it is in no frame.
  struct Place {
    const PagedRun* run = nullptr;
    const char* fences = nullptr;
    const char* block = nullptr;
    uint32_t number = 0;    // of the block; before it is known a guess, less 1
    uint32_t in_block = 0;  // a guess, then the place of the key
    l1::KeyBounds bounds;   // of the block
  };
  [[gnu::always_inline]] bool FindFences(const PagedRun& run, uint64_t key, Place* place) const {
    if (!run.Contains(key)) return false;
    place->run = &run;
    place->fences = FencesOf(run);
    if (place->fences == nullptr) return false;
    place->number = run.GuessBlock(key);
    __builtin_prefetch(SwipsOf(run) + place->number);
    __builtin_prefetch(l1::FenceBlock(place->fences).first_keys() + place->number);
    return true;
  }
  [[gnu::always_inline]] bool FindBlock(uint64_t key, Place* place) const {
    const PagedRun& run = *place->run;
    const l1::FenceBlock fences(place->fences);
    place->number = fences.BlockNear(key, run.block_count, place->number);
    place->bounds = fences.BoundsOf(place->number, run.max_key);
    place->block = BlockOf(run, place->number);
    return place->block != nullptr;
  }
  [[gnu::always_inline]] static RefWord* FindWord(uint64_t key, const Place& place) {
    return place.run->WordIn(l1::RecordBlock(place.block), place.run->CountIn(place.number), key,
                             place.bounds);
  }
  // FindWord in two steps, up to the place of the key.
  [[gnu::always_inline]] static void PrefetchKeys(uint64_t key, Place* place) {
    place->in_block = l1::RecordBlock(place->block)
                          .PrefetchKeys(place->run->CountIn(place->number), key, place->bounds);
  }
  [[gnu::always_inline]] static bool FindKey(uint64_t key, Place* place) {
    const l1::RecordBlock block(place->block);
    const uint32_t count = place->run->CountIn(place->number);
    place->in_block = block.FindNear(count, key, place->in_block);
    __builtin_prefetch(block.words() + place->in_block);
    return place->in_block < count;
  }
  // The word of `key` if it is in that place of the run, and in a frame.
  [[gnu::always_inline]] RefWord* WordAt(const PagedRun& run, uint64_t key,
                                         const RunWindow& window) const {
    if (window.block > run.block_count || FencesOf(run) == nullptr) return nullptr;
    const char* const block = BlockOf(run, window.block);
    if (block == nullptr || window.place >= run.CountIn(window.block)) return nullptr;
    return run.WordAt(l1::RecordBlock(block), key, window.place);
  }
  [[gnu::always_inline]] RefWord* Locate(const PagedRun& run, uint64_t key) const {
    Place place;
    return FindFences(run, key, &place) && FindBlock(key, &place) ? FindWord(key, place) : nullptr;
  }

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
  // The frame that a swip leads to; null if it is cold. Clears the cooling bit: the frame is being
  // used.
  [[gnu::always_inline]] const char* DataOf(std::atomic<uint64_t>* swip) const {
    // Sequentially consistent: pairs with BlockOwner::Unswizzle. Either this reader sees that the
    // frame is gone, or the evictor sees the reader inside the epoch. Also acquire: pairs with the
    // release of the exchange in Swizzle.
    const Swip seen(swip->load(std::memory_order_seq_cst));
    if (!seen.hot()) return nullptr;
    if (seen.cooling()) [[unlikely]] {
      l1::BlockOwner::Heat(swip, seen);
    }
    return frames_ + seen.number() * l1::FrameCache::kBlockBytes;
  }
  [[gnu::always_inline]] static std::atomic<uint64_t>* SwipsOf(const PagedRun& run) {
    // Acquire: pairs with the release in Swizzle.
    return run.swips.load(std::memory_order_acquire);
  }
  bool HasHotWords(uint32_t frame, const l1::FrameInfo& info) const noexcept;

  l1::FrameCache* const cache_;
  const char* const frames_;  // the first one
  l1::BlockOwner blocks_;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_BLOCK_FRAMES_H_
