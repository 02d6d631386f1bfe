// A sorted run that lies in an extent on disk. Its blocks are reached through swips: the one here
// leads to the frame of the extent's first block, which has the fences. That frame has the swips of
// the blocks of records. Their words, finally, are swips to the frames of values.
//
// Runs never change. A merge writes another extent.
//
// Thread safety: const calls from inside the epoch of the frames, or with the bucket's lock and the
// mutex of the frames' pool.
#ifndef ENGINE_RACE_INDEX_PAGED_RUN_H_
#define ENGINE_RACE_INDEX_PAGED_RUN_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "engine_race/index/block_lookup.h"
#include "engine_race/index/held_slots.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/l1/extent_id.h"
#include "engine_race/l1/key_block.h"
#include "engine_race/l1/key_search.h"
#include "engine_race/l1/limbo.h"
#include "engine_race/log/format.h"

namespace engine_race {

class BlockFrames;
class Paging;

struct alignas(64) PagedRun final : public l1::Retirable {
  // Lookups begin with the members down to `swips`, which lie in one cache line.
  uint64_t min_key = 0;
  uint64_t max_key = 0;
  // The blocks of records for each key of the range, as a fraction of 2^64.
  uint64_t blocks_per_key = 0;
  // Leads to the frame of the first block, if it is hot.
  mutable std::atomic<uint64_t> fences{0};
  // The swips of the blocks of records, which belong to that frame. A lookup loads them after
  // `fences` and may find those of a later frame of the same block. They are as good.
  mutable std::atomic<std::atomic<uint64_t>*> swips{nullptr};
  // Of the moment when an opening found the run. Null for a run that this opening has written: its
  // words led to records then.
  std::shared_ptr<const HeldSlots> held;
  // See Part::births.
  uint64_t births = 0;
  l1::ExtentId id;
  uint32_t record_count = 0;
  uint32_t block_count = 0;  // of blocks of records
  // How many lookups found a block of the run in no frame. Relaxed: a hint.
  mutable std::atomic<uint32_t> miss_count{0};
  Paging* owner = nullptr;

  bool Contains(uint64_t key) const { return key >= min_key && key <= max_key; }
  // How many records the block with that number has. All blocks but the last one are full.
  uint32_t CountIn(uint32_t block) const {
    return block < block_count ? format::kIndexBlockRecords
                               : record_count - (block - 1) * format::kIndexBlockRecords;
  }
  // The number of the block, less 1, that an evenly spread key of the run would be in.
  uint32_t GuessBlock(uint64_t key) const {
    return static_cast<uint32_t>((static_cast<unsigned __int128>(key - min_key) * blocks_per_key) >>
                                 64);
  }
  // Sets min_key, max_key, record_count and what follows from them.
  void Describe(uint64_t first_key, uint64_t last_key, uint32_t count) {
    min_key = first_key;
    max_key = last_key;
    record_count = count;
    block_count = format::IndexBlocksOf(count);
    const unsigned __int128 width = static_cast<unsigned __int128>(last_key - first_key) + 1;
    blocks_per_key =
        static_cast<uint64_t>(std::min((static_cast<unsigned __int128>(block_count) << 64) / width,
                                       static_cast<unsigned __int128>(~uint64_t{0})));
  }
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
  // The word of `key` in a block of the run; null if it is not there. The words of a block are
  // ValueRefs, which RefWord changes atomically. A void word is never led to a frame.
  [[gnu::always_inline]] RefWord* WordIn(const l1::RecordBlock& block, uint32_t count, uint64_t key,
                                         const l1::KeyBounds& bounds) const {
    const uint32_t at = block.FindAmong(count, key, bounds);
    return at == count ? nullptr : RecordAt(block, key, at);
  }
  // Likewise if `key` is in that place, which is below the block's count.
  [[gnu::always_inline]] RefWord* WordAt(const l1::RecordBlock& block, uint64_t key,
                                         uint32_t at) const {
    return block.keys()[at] == key ? RecordAt(block, key, at) : nullptr;
  }

 private:
  [[gnu::always_inline]] RefWord* RecordAt(const l1::RecordBlock& block, uint64_t key,
                                           uint32_t at) const {
    auto* const word = reinterpret_cast<RefWord*>(block.words() + at);
    return held == nullptr || IsRecord(*word, key) ? word : nullptr;
  }
  // Not of a run without `held`.
  bool IsRecord(const RefWord& word, uint64_t key) const;
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
