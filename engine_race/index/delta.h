// The newest records of a part: a small sorted array that takes single records until it is merged.
//
// Thread safety: const calls from any thread; Put and the rest exclude everything. Movable owner.
#ifndef ENGINE_RACE_INDEX_DELTA_H_
#define ENGINE_RACE_INDEX_DELTA_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/index/lower_bound.h"

namespace engine_race {

class Delta {
 public:
  Delta() = default;
  Delta(Delta&& other) noexcept { *this = std::move(other); }
  Delta& operator=(Delta&& other) noexcept {
    keys_ = std::move(other.keys_);
    refs_ = std::move(other.refs_);
    count_ = std::exchange(other.count_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  // An empty delta with room for `capacity` keys.
  static Status Create(uint32_t capacity, Delta* delta) {
    Delta made;
    made.keys_.reset(new (std::nothrow) uint64_t[capacity]);
    made.refs_.reset(new (std::nothrow) ValueRef[capacity]);
    if (made.keys_ == nullptr || made.refs_ == nullptr) {
      return Status::OutOfMemory("index: no memory for new records");
    }
    made.capacity_ = capacity;
    *delta = std::move(made);
    return Status::Ok();
  }

  // Copies what `other` holds; capacity() must suffice.
  void CopyFrom(const Delta& other) {
    count_ = other.count_;
    std::memcpy(keys_.get(), other.keys_.get(), count_ * sizeof(uint64_t));
    std::memcpy(refs_.get(), other.refs_.get(), count_ * sizeof(ValueRef));
  }

  // Takes over a record that is newer than everything here. A new key needs count() < capacity().
  void Put(uint64_t key, ValueRef ref) {
    const size_t rank = Rank(key);
    if (rank == count_ || keys_[rank] != key) {
      std::memmove(&keys_[rank + 1], &keys_[rank], (count_ - rank) * sizeof(uint64_t));
      std::memmove(&refs_[rank + 1], &refs_[rank], (count_ - rank) * sizeof(ValueRef));
      keys_[rank] = key;
      ++count_;
    }
    refs_[rank] = ref;
  }

  bool Find(uint64_t key, ValueRef* ref) const {
    const size_t rank = Rank(key);
    if (rank == count_ || keys_[rank] != key) return false;
    *ref = refs_[rank];
    return true;
  }

  size_t Rank(uint64_t key) const { return LowerBound(keys_.get(), count_, key); }

  const uint64_t* keys() const { return keys_.get(); }
  const ValueRef* refs() const { return refs_.get(); }
  uint32_t count() const { return count_; }
  uint32_t capacity() const { return capacity_; }
  bool full() const { return count_ == capacity_; }
  size_t memory_bytes() const { return capacity_ * (sizeof(uint64_t) + sizeof(ValueRef)); }

 private:
  std::unique_ptr<uint64_t[]> keys_;
  std::unique_ptr<ValueRef[]> refs_;
  uint32_t count_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_DELTA_H_
