// The keys that an iterator has at hand: all those that a view shows in one stretch of keys.
//
// They are kept as the bytes that users see, ascending, so that a step within the batch is an
// addition. A walk begins with few keys; the batch doubles as long as the walk goes on. Up to
// kInlineKeys lie in the object itself, more in memory that is kept for later batches.
//
// One thread at a time. Owner of its memory.
// Invariants: the batch has every key of the view in [covered_first_, covered_last_]; its first and
// last key are first_key_ and last_key_. Empty, both pairs of bounds hold nothing.
#ifndef ENGINE_RACE_SCAN_KEY_BATCH_H_
#define ENGINE_RACE_SCAN_KEY_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "engine_race/base/assert.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/scan/swap_keys.h"

namespace engine_race {

class KeyBatch {
 public:
  static constexpr uint32_t kFirstKeys = 8;
  static constexpr uint32_t kInlineKeys = 32;
  static constexpr uint32_t kMaxKeys = 256;

  // Left uninitialised as long as there are no keys: an iterator is made for every short walk.
  KeyBatch() noexcept {}  // NOLINT(modernize-use-equals-default)
  KeyBatch(const KeyBatch&) = delete;
  KeyBatch& operator=(const KeyBatch&) = delete;

  // Loads the first keys in [from, last], or the last ones in [first, from], that a view of
  // `version` shows. The batch is empty when there are none (Ok) and after kIOError, kCorruption
  // and kOutOfMemory.
  Status LoadFrom(const Index& index, uint64_t from, uint64_t last, uint64_t version) noexcept;
  Status LoadUpTo(const Index& index, uint64_t first, uint64_t from, uint64_t version) noexcept;

  void Clear() {
    count_ = 0;
    covered_first_ = first_key_ = 1;
    covered_last_ = last_key_ = 0;
  }
  // The next batch is a first one. Frees what was read ahead.
  void Restart() {
    room_ = kFirstKeys;
    ahead_.reset();
  }
  // The next batch goes on after this one, backwards or not: it is twice as large where this one
  // went the same way. Refused memory leaves it smaller. A long walk reads ahead in a paged index.
  void Grow(const Index& index, bool backwards) noexcept;

  uint32_t count() const { return count_; }
  bool empty() const { return count_ == 0; }
  uint32_t room() const { return room_; }
  // Whether the first key at or after `key`, or the last one at or before it, is in the batch for
  // certain. One branch, nearly always the same way: two would be guessed wrong every other time.
  bool HoldsNext(uint64_t key) const { return (key >= covered_first_) & (key <= last_key_); }
  bool HoldsPrevious(uint64_t key) const { return (key >= first_key_) & (key <= covered_last_); }
  // Where these keys are, when the batch holds them.
  uint32_t NextOf(uint64_t key) const {
    ENGINE_RACE_ASSERT(HoldsNext(key));
    return Rank(key);
  }
  uint32_t PreviousOf(uint64_t key) const {
    ENGINE_RACE_ASSERT(HoldsPrevious(key));
    const uint32_t rank = Rank(key);
    return rank < count_ && KeyAt(rank) == key ? rank : rank - 1;
  }

  // Where the kKeyBytes bytes of key i lie, those of all keys in one row, and which key lies there.
  // Good until the next load.
  const char* BytesAt(uint32_t i) const {
    ENGINE_RACE_ASSERT(i < count_);
    return bytes() + size_t{i} * kKeyBytes;
  }
  uint32_t IndexOf(const char* at) const {
    ENGINE_RACE_ASSERT(at >= bytes() && at < bytes() + size_t{count_} * kKeyBytes);
    return static_cast<uint32_t>(static_cast<size_t>(at - bytes()) / kKeyBytes);
  }

  // Beside the object itself.
  uint64_t memory_bytes() const { return many_keys_ != nullptr ? kMaxKeys * sizeof(uint64_t) : 0; }

 private:
  // Every batch has room for a multiple of kSwappedAtOnce.
  static_assert(kFirstKeys % kSwappedAtOnce == 0 && kInlineKeys % kSwappedAtOnce == 0);
  static_assert(kMaxKeys % kSwappedAtOnce == 0);

  template <typename FillFn>
  Status Fill(const FillFn& fill) noexcept;
  bool Take(uint32_t count);
  const char* bytes() const { return reinterpret_cast<const char*>(keys_); }
  uint64_t KeyAt(uint32_t i) const { return __builtin_bswap64(keys_[i]); }
  uint32_t Rank(uint64_t key) const;  // how many keys are below

  // Big-endian.
  uint64_t* keys_ = few_keys_;
  uint32_t count_ = 0;
  uint32_t room_ = kFirstKeys;
  uint64_t covered_first_ = 1;
  uint64_t first_key_ = 1;
  uint64_t last_key_ = 0;
  uint64_t covered_last_ = 0;
  bool loaded_backwards_ = false;  // it came from LoadUpTo
  std::unique_ptr<uint64_t[]> many_keys_;
  std::unique_ptr<RunSlices> ahead_;  // of a long walk; may be null
  uint64_t few_keys_[kInlineKeys];
};

inline uint32_t KeyBatch::Rank(uint64_t key) const {
  uint32_t low = 0;
  uint32_t size = count_;
  while (size > 0) {
    const uint32_t half = size / 2;
    const bool below = KeyAt(low + half) < key;
    low = below ? low + half + 1 : low;
    size = below ? size - half - 1 : half;
  }
  return low;
}

// Takes over the keys that the index brought; false when there are none.
inline bool KeyBatch::Take(uint32_t count) {
  if (count == 0) [[unlikely]] {
    Clear();
    return false;
  }
  ENGINE_RACE_ASSERT(count <= room_);
  count_ = count;
  // A copy, because for all the compiler knows a store through keys_ might change it.
  uint64_t* const keys = keys_;
  first_key_ = keys[0];
  last_key_ = keys[count - 1];
  // Keys that are swapped beyond the last one are not looked at.
  uint32_t i = 0;
  do {
    SwapKeys(keys + i);
    i += kSwappedAtOnce;
  } while (i < count);
  return true;
}

// The answer of `fill`, which the index gives, or kOutOfMemory for what it throws. Not by Guarded,
// which would be a call on the way of every seek.
template <typename FillFn>
[[gnu::always_inline]] inline Status KeyBatch::Fill(const FillFn& fill) noexcept {
  try {
    return fill();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("the keys of an iterator");
  }
}

[[gnu::always_inline]] inline Status KeyBatch::LoadFrom(const Index& index, uint64_t from,
                                                        uint64_t last, uint64_t version) noexcept {
  size_t count = 0;
  Status status = Fill([&] {
    return index.FirstKeys(from, last, version, {keys_, room_}, &count, ahead_.get());
  });
  if (!status.ok()) [[unlikely]] {
    Clear();
    return status;
  }
  loaded_backwards_ = false;
  if (Take(static_cast<uint32_t>(count))) [[likely]] {
    ENGINE_RACE_ASSERT(from <= first_key_ && first_key_ <= last_key_ && last_key_ <= last);
    covered_first_ = from;
    covered_last_ = last_key_;
  }
  return status;
}

[[gnu::always_inline]] inline Status KeyBatch::LoadUpTo(const Index& index, uint64_t first,
                                                        uint64_t from, uint64_t version) noexcept {
  size_t count = 0;
  Status status = Fill([&] {
    return index.LastKeys(first, from, version, {keys_, room_}, &count, ahead_.get());
  });
  if (!status.ok()) [[unlikely]] {
    Clear();
    return status;
  }
  loaded_backwards_ = true;
  if (Take(static_cast<uint32_t>(count))) [[likely]] {
    ENGINE_RACE_ASSERT(first <= first_key_ && first_key_ <= last_key_ && last_key_ <= from);
    covered_first_ = first_key_;
    covered_last_ = from;
  }
  return status;
}

}  // namespace engine_race

#endif  // ENGINE_RACE_SCAN_KEY_BATCH_H_
