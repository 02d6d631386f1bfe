// A sorted run that lies in an extent on disk. Its blocks are reached through swips: the one here
// leads to the frame of the extent's first block, which has the fences. That frame has the swips of
// the blocks of records. Their words, finally, are swips to the frames of values.
//
// Runs never change. A merge writes another extent.
//
// Thread safety: const calls from any thread that holds the bucket's lock. It also must be inside
// the epoch of the frames, or hold the mutex of their pool.
#ifndef ENGINE_RACE_INDEX_PAGED_RUN_H_
#define ENGINE_RACE_INDEX_PAGED_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/index/block_lookup.h"
#include "engine_race/index/held_slots.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/l1/extent_id.h"
#include "engine_race/l1/key_block.h"
#include "engine_race/l1/key_search.h"
#include "engine_race/log/format.h"

namespace engine_race {

class BlockFrames;
class Paging;

struct PagedRun {
  l1::ExtentId id;
  uint32_t record_count = 0;
  uint64_t min_key = 0;
  uint64_t max_key = 0;
  // See Part::births.
  uint64_t births = 0;
  // Of the moment when an opening found the run. Null for a run that this opening has written: its
  // words led to records then.
  std::shared_ptr<const HeldSlots> held;
  Paging* owner = nullptr;
  // How many lookups found a block of the run in no frame. Relaxed: a hint.
  mutable std::atomic<uint32_t> miss_count{0};
  // Leads to the frame of the first block, if it is hot.
  mutable std::atomic<uint64_t> fences{0};

  bool Contains(uint64_t key) const { return key >= min_key && key <= max_key; }
  // How many blocks of records there are.
  uint32_t block_count() const { return format::IndexBlocksOf(record_count); }
  // How many keys probably lie in [first_key, last_key], as if they were evenly spread.
  uint64_t EstimateCount(uint64_t first_key, uint64_t last_key) const;

  // Whether a word of the run that leads to the slot stands for a record. If not, the record was
  // dead before this opening, or was moved.
  bool Holds(uint64_t slot, uint64_t key) const {
    return held == nullptr || held->Holds(slot, births, key);
  }
  // The word of `key`, in a frame or in the block that `lookup` holds. Null if the run does not
  // have the key, or if `lookup` wants a block. Without a lookup only frames are searched.
  RefWord* Locate(uint64_t key, const BlockFrames& frames, BlockLookup* lookup) const;

 private:
  RefWord* WordIn(const l1::RecordBlock& block, uint64_t key, const l1::KeyBounds& bounds) const;
};

// Gives a run that no part has any more back to its owner. To be called without an index lock.
struct PagedRunDeleter {
  void operator()(PagedRun* run) const noexcept;
};
using PagedRunPtr = std::unique_ptr<PagedRun, PagedRunDeleter>;

// The frames in which a part looks for blocks, and the lookup that names a missing block. `frames`
// is null only if no part is paged.
struct BlockAccess {
  const BlockFrames* frames = nullptr;
  BlockLookup* lookup = nullptr;

  bool is_wanting() const { return lookup != nullptr && lookup->is_wanting(); }
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_PAGED_RUN_H_
