#include "engine_race/index/paged_run.h"

#include <algorithm>

#include "engine_race/base/assert.h"
#include "engine_race/index/block_frames.h"

namespace engine_race {

uint64_t PagedRun::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  const uint64_t first = std::max(first_key, min_key);
  const uint64_t last = std::min(last_key, max_key);
  if (first > last) return 0;
  using Wide = unsigned __int128;
  const Wide part = (Wide{last - first} + 1) * record_count;
  return static_cast<uint64_t>(part / (Wide{max_key - min_key} + 1));
}

bool PagedRun::IsRecord(const RefWord& word, uint64_t key) const {
  const ValueRef ref = word.Load();
  return ref.hot() || Holds(ref.slot(), key);
}

RefWord* PagedRun::Locate(uint64_t key, const BlockFrames& frames, BlockLookup* lookup) const {
  if (!Contains(key)) return nullptr;
  const char* const held = lookup == nullptr ? nullptr : lookup->HeldOf(id);
  const bool holds_records = held != nullptr && lookup->block() > 0;
  if (holds_records) {
    const l1::RecordBlock block(held);
    return WordIn(block, block.count(), key, block.bounds());
  }
  const char* const fences = frames.FencesOf(*this);
  if (fences == nullptr && held == nullptr) {
    if (lookup != nullptr) lookup->Want(id, 0);
    return nullptr;
  }
  const l1::FenceBlock fence_block(fences != nullptr ? fences : held);
  const uint32_t number = fence_block.BlockOf(key, {min_key, max_key});
  const char* const block = fences == nullptr ? nullptr : frames.BlockOf(*this, number);
  if (block != nullptr) {
    if (lookup != nullptr) lookup->NoteHit();
    return WordIn(l1::RecordBlock(block), CountIn(number), key,
                  fence_block.BoundsOf(number, max_key));
  }
  if (lookup != nullptr) lookup->Want(id, number);
  return nullptr;
}

}  // namespace engine_race
