// All loads by walks and all changes are sequentially consistent. They are ordered with the change
// of the version by a new view, and with the load of the version by a writer. So a view whose
// version is not below a record's stamp finds the bucket of that record, at its first look and at
// every later one.
#include "engine_race/index/held_buckets.h"

#include <bit>

namespace engine_race {
namespace {

constexpr std::memory_order kOrder = std::memory_order_seq_cst;

}  // namespace

void HeldBuckets::SetSlowly(uint32_t bucket) noexcept {
  const std::lock_guard lock(mutex_);
  const uint32_t word = bucket / kWordBits;
  words_[word].fetch_or(uint64_t{1} << bucket % kWordBits, kOrder);
  top_[word / kWordBits].fetch_or(uint64_t{1} << word % kWordBits, kOrder);
}

void HeldBuckets::Clear(uint32_t bucket) noexcept {
  const std::lock_guard lock(mutex_);
  const uint32_t word = bucket / kWordBits;
  const uint64_t bit = uint64_t{1} << bucket % kWordBits;
  if ((words_[word].fetch_and(~bit, kOrder) & ~bit) != 0) return;
  top_[word / kWordBits].fetch_and(~(uint64_t{1} << word % kWordBits), kOrder);
}

uint32_t HeldBuckets::Next(uint32_t bucket) const noexcept {
  if (bucket >= kMaxBucketCount) return kNone;
  uint32_t word = bucket / kWordBits;
  uint64_t bits = words_[word].load(kOrder) & ~uint64_t{0} << bucket % kWordBits;
  while (bits == 0) {
    if (++word == kWords) return kNone;
    const uint64_t top = top_[word / kWordBits].load(kOrder) & ~uint64_t{0} << word % kWordBits;
    if (top == 0) {
      word |= kWordBits - 1;
      continue;
    }
    word = word / kWordBits * kWordBits + static_cast<uint32_t>(std::countr_zero(top));
    bits = words_[word].load(kOrder);
  }
  return word * kWordBits + static_cast<uint32_t>(std::countr_zero(bits));
}

uint32_t HeldBuckets::Previous(uint32_t bucket) const noexcept {
  constexpr uint32_t kLast = kWordBits - 1;
  uint32_t word = bucket / kWordBits;
  uint64_t bits = words_[word].load(kOrder) & ~uint64_t{0} >> (kLast - bucket % kWordBits);
  while (bits == 0) {
    if (word-- == 0) return kNone;
    const uint64_t top =
        top_[word / kWordBits].load(kOrder) & ~uint64_t{0} >> (kLast - word % kWordBits);
    if (top == 0) {
      word &= ~kLast;
      continue;
    }
    word = word / kWordBits * kWordBits + kLast - static_cast<uint32_t>(std::countl_zero(top));
    bits = words_[word].load(kOrder);
  }
  return word * kWordBits + kLast - static_cast<uint32_t>(std::countl_zero(bits));
}

}  // namespace engine_race
