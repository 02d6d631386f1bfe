// Views over the blocks of an extent in memory: blocks of records, and the block of fences before
// them.
//
// A view is a pointer and does not own the block. The block is format::kIndexBlockBytes long and
// lies aligned to them. ExtentStore::IsWhole has found it whole before it is viewed. Searches never
// read outside the block, whatever its keys are.
//
// Views are thread-safe. The words of a block in a frame may change while others read them: all
// access to those goes through std::atomic_ref.
#ifndef ENGINE_RACE_L1_KEY_BLOCK_H_
#define ENGINE_RACE_L1_KEY_BLOCK_H_

#include <algorithm>
#include <cstdint>

#include "engine_race/base/assert.h"
#include "engine_race/l1/key_search.h"
#include "engine_race/log/format.h"

namespace engine_race::l1 {

class RecordBlock {
 public:
  explicit RecordBlock(const char* data)
      : block_(reinterpret_cast<const format::IndexRecordBlock*>(data)) {
    ENGINE_RACE_ASSERT(reinterpret_cast<uintptr_t>(data) % format::kIndexBlockBytes == 0);
  }

  // At least 1.
  uint32_t count() const {
    const uint32_t count = block_->header.record_count;
    ENGINE_RACE_ASSERT(count > 0 && count <= format::kIndexBlockRecords);
    return count;
  }
  // Ascending.
  const uint64_t* keys() const { return block_->keys; }
  // The word of each key, to be changed only where the block lies in memory of the caller's.
  uint64_t* words() const { return const_cast<uint64_t*>(block_->words); }
  KeyBounds bounds() const {
    // The constant of a full block lets the processor fetch both keys before it has the count.
    if (count() == format::kIndexBlockRecords) [[likely]] {
      return {block_->keys[0], block_->keys[format::kIndexBlockRecords - 1]};
    }
    return {block_->keys[0], block_->keys[count() - 1]};
  }
  // The position of `key`, or count() when it is not there.
  uint32_t Find(uint64_t key, const KeyBounds& bounds) const {
    const uint32_t end = count();
    // Most blocks are full. The constant lets the processor go on before it has the count.
    if (end == format::kIndexBlockRecords) [[likely]] {
      return FindAmong(format::kIndexBlockRecords, key, bounds);
    }
    return FindAmong(end, key, bounds);
  }
  // Find for a caller that knows count() and its bounds, so that no other memory is waited for.
  [[gnu::always_inline]] uint32_t FindAmong(uint32_t count, uint64_t key,
                                            const KeyBounds& bounds) const {
    const uint32_t guess = GuessRank(bounds, key, count);
    // The caller reads the word next, which lies near the guess. Fetched now, it does not wait for
    // the keys. A prefetch may leave the block: it never faults.
    const uint64_t* const word = block_->words + guess;
    __builtin_prefetch(word - kLineWords);
    __builtin_prefetch(word);
    __builtin_prefetch(word + kLineWords);
    return FindNear(count, key, guess);
  }
  // FindAmong in two steps: the first one gives a guess, and fetches the keys around it.
  [[gnu::always_inline]] uint32_t PrefetchKeys(uint32_t count, uint64_t key,
                                               const KeyBounds& bounds) const {
    const uint32_t guess = GuessRank(bounds, key, count);
    const uint64_t* const window = block_->keys + guess - std::min(guess, kRecordWindowKeys / 2);
    for (uint32_t i = 0; i <= kRecordWindowKeys; i += kLineWords) __builtin_prefetch(window + i);
    return guess;
  }
  [[gnu::always_inline]] uint32_t FindNear(uint32_t count, uint64_t key, uint32_t guess) const {
    return l1::FindNear<kRecordWindowKeys>(block_->keys, count, guess, key);
  }

 private:
  static constexpr uint32_t kLineWords = 8;
  const format::IndexRecordBlock* block_;
};

class FenceBlock {
 public:
  explicit FenceBlock(const char* data)
      : block_(reinterpret_cast<const format::IndexFenceBlock*>(data)) {
    ENGINE_RACE_ASSERT(reinterpret_cast<uintptr_t>(data) % format::kIndexBlockBytes == 0);
  }

  // How many blocks of records the extent has, at least 1. They are numbered 1 to block_count().
  uint32_t block_count() const {
    const uint32_t count = block_->header.record_count;
    ENGINE_RACE_ASSERT(count > 0 && count <= format::kIndexFences);
    return count;
  }
  // first_keys()[i] is the first key of block i + 1.
  const uint64_t* first_keys() const { return block_->first_keys; }
  // The number of the only block of records that can hold `key`, from 1 to block_count(). It is the
  // last block whose first key is not above `key`, and 1 for keys below all. `bounds`: of the keys
  // of the extent.
  uint32_t BlockOf(uint64_t key, const KeyBounds& bounds) const {
    const uint32_t count = block_count();
    return BlockNear(key, count, GuessRank(bounds, key, count));
  }
  // BlockOf for a caller that knows block_count() and a guess below it.
  [[gnu::always_inline]] uint32_t BlockNear(uint64_t key, uint32_t count, uint32_t guess) const {
    const uint32_t not_above = UpperRankNear<kFenceWindowKeys>(first_keys(), count, guess, key);
    return std::max(not_above, 1U);
  }
  // The bounds of the keys of that block. `last_key` is the extent's.
  KeyBounds BoundsOf(uint32_t number, uint64_t last_key) const {
    ENGINE_RACE_ASSERT(number > 0 && number <= block_count());
    return {first_keys()[number - 1], number < block_count() ? first_keys()[number] - 1 : last_key};
  }

 private:
  const format::IndexFenceBlock* block_;
};

}  // namespace engine_race::l1

#endif  // ENGINE_RACE_L1_KEY_BLOCK_H_
