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
  // How many keys are below `key`. FenceBlock::BoundsOf gives the bounds before the block's own
  // memory is looked at.
  uint32_t Rank(uint64_t key, const KeyBounds& bounds) const {
    const uint32_t end = count();
    // Most blocks are full. The constant lets the processor go on before it has the count.
    if (end == format::kIndexBlockRecords) [[likely]] {
      return RankAmong(format::kIndexBlockRecords, key, bounds);
    }
    return RankAmong(end, key, bounds);
  }
  // The position of `key`, or count() when it is not there.
  uint32_t Find(uint64_t key, const KeyBounds& bounds) const {
    const uint32_t rank = Rank(key, bounds);
    const uint32_t end = count();
    return rank < end && keys()[rank] == key ? rank : end;
  }

 private:
  uint32_t RankAmong(uint32_t count, uint64_t key, const KeyBounds& bounds) const {
    const uint32_t guess = GuessRank(bounds.first, bounds.last, key, count);
    // The caller reads the word next, which lies near the guess. Fetched now, it does not wait for
    // the keys. A prefetch may leave the block: it never faults.
    const uint64_t* const word = block_->words + guess;
    __builtin_prefetch(word - kLineWords);
    __builtin_prefetch(word);
    __builtin_prefetch(word + kLineWords);
    return RankNear<kRecordWindowKeys>(block_->keys, count, guess, key);
  }

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
    // Only the last key has none above it.
    if (key == ~uint64_t{0}) return count;
    const uint32_t guess = GuessRank(bounds.first, bounds.last, key, count);
    const uint32_t not_above = RankNear<kFenceWindowKeys>(first_keys(), count, guess, key + 1);
    return not_above == 0 ? 1 : not_above;
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
