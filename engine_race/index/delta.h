// The newest records of a part: a small sorted array that takes single records until it is merged.
//
// Each record carries the version with which it was stamped. A key may have several records, the
// newest first: the older ones are kept for views that may show them.
//
// Thread safety: const calls from any thread. Any other call excludes all calls. Movable owner.
#ifndef ENGINE_RACE_INDEX_DELTA_H_
#define ENGINE_RACE_INDEX_DELTA_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/base/status.h"
#include "engine_race/index/frame_slots.h"
#include "engine_race/index/live_versions.h"
#include "engine_race/index/ref_word.h"
#include "engine_race/index/value_ref.h"

namespace engine_race {

class Delta {
 public:
  Delta() = default;
  Delta(Delta&& other) noexcept { *this = std::move(other); }
  Delta& operator=(Delta&& other) noexcept {
    keys_ = std::move(other.keys_);
    refs_ = std::move(other.refs_);
    stamps_ = std::move(other.stamps_);
    count_ = std::exchange(other.count_, 0);
    superseded_count_ = std::exchange(other.superseded_count_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  // An empty delta with room for `capacity` records.
  static Status Create(uint32_t capacity, Delta* delta) {
    Delta made;
    made.keys_.reset(new (std::nothrow) uint64_t[capacity]);
    made.refs_.reset(new (std::nothrow) RefWord[capacity]);
    made.stamps_.reset(new (std::nothrow) uint64_t[capacity]);
    if (made.keys_ == nullptr || made.refs_ == nullptr || made.stamps_ == nullptr) {
      return Status::OutOfMemory("index: no memory for new records");
    }
    made.capacity_ = capacity;
    *delta = std::move(made);
    return Status::Ok();
  }

  // Copies the records of `other`; capacity() must suffice. Excludes all other calls, because it
  // copies the words of `other` without atomic loads.
  void CopyFrom(const Delta& other) {
    ENGINE_RACE_ASSERT(capacity_ >= other.count_);
    count_ = other.count_;
    superseded_count_ = other.superseded_count_;
    std::memcpy(keys_.get(), other.keys_.get(), count_ * sizeof(uint64_t));
    std::memcpy(refs_.get(), other.refs_.get(), count_ * sizeof(RefWord));
    std::memcpy(stamps_.get(), other.stamps_.get(), count_ * sizeof(uint64_t));
  }

  // Makes *copy a copy with slots instead of frames. Readers and swizzles may go on. kOutOfMemory.
  Status CopySlots(const FrameSlots& slots, Delta* copy) const {
    ENGINE_RACE_RETURN_IF_ERROR(Create(count_, copy));
    for (uint32_t i = 0; i < count_; ++i) {
      copy->Append(keys_[i], slots.SlotOf(refs_[i]), stamps_[i]);
    }
    return Status::Ok();
  }
  // Adds a record behind all others: in the order of keys, and the newest of a key first.
  void Append(uint64_t key, ValueRef ref, uint64_t stamp) {
    ENGINE_RACE_ASSERT(count_ < capacity_ && (count_ == 0 || keys_[count_ - 1] <= key));
    superseded_count_ += count_ > 0 && keys_[count_ - 1] == key;
    keys_[count_] = key;
    refs_[count_].Store(ref);
    stamps_[count_++] = stamp;
  }

  // Adds a record that is newer than all records here, stamped with `version`. `watched`: a view
  // may show the record that it supersedes. That record is then kept, unless it has the same stamp.
  // Needs count() < capacity().
  void Put(uint64_t key, ValueRef ref, uint64_t version, bool watched) {
    ENGINE_RACE_ASSERT(count_ < capacity_);
    const size_t rank = Rank(key);
    const bool supersedes = rank != count_ && keys_[rank] == key;
    if (!supersedes || (watched && stamps_[rank] != version)) {
      // Newer records have later stamps.
      ENGINE_RACE_ASSERT(!supersedes || stamps_[rank] <= version);
      const size_t moved = count_ - rank;
      std::memmove(&keys_[rank + 1], &keys_[rank], moved * sizeof(uint64_t));
      std::memmove(&refs_[rank + 1], &refs_[rank], moved * sizeof(RefWord));
      std::memmove(&stamps_[rank + 1], &stamps_[rank], moved * sizeof(uint64_t));
      keys_[rank] = key;
      ++count_;
      superseded_count_ += supersedes;
    }
    refs_[rank].Store(ref);
    stamps_[rank] = version;
    ENGINE_RACE_ASSERT(count_ <= capacity_ && superseded_count_ < count_);
  }

  // Drops the superseded records that no live view shows.
  void DropUnseen(const LiveVersions& live) {
    uint32_t kept = 0;
    uint64_t last_key = 0;
    uint64_t superseded_at = 0;
    superseded_count_ = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const bool superseded = i > 0 && last_key == keys_[i];
      const bool seen = !superseded || live.AnyIn(stamps_[i], superseded_at);
      last_key = keys_[i];
      superseded_at = stamps_[i];
      if (!seen) continue;
      superseded_count_ += superseded;
      keys_[kept] = keys_[i];
      refs_[kept] = refs_[i];
      stamps_[kept++] = stamps_[i];
    }
    ENGINE_RACE_ASSERT(kept <= count_ && superseded_count_ <= kept);
    count_ = kept;
  }

  // The word of the record of `key` that a view of `version` shows; null if none is here.
  RefWord* Locate(uint64_t key, uint64_t version = kLatestVersion) const {
    for (size_t i = Rank(key); i < count_ && keys_[i] == key; ++i) {
      if (version == kLatestVersion || stamps_[i] <= version) return &refs_[i];
    }
    return nullptr;
  }

  size_t Rank(uint64_t key) const { return LowerBound(keys_.get(), count_, key); }

  const uint64_t* keys() const { return keys_.get(); }
  RefWord* refs() const { return refs_.get(); }
  const uint64_t* stamps() const { return stamps_.get(); }
  uint32_t count() const { return count_; }
  // How many of the records are not the newest of their key.
  uint32_t superseded_count() const { return superseded_count_; }
  uint32_t capacity() const { return capacity_; }
  bool full() const { return count_ == capacity_; }
  size_t memory_bytes() const {
    return capacity_ * (sizeof(uint64_t) + sizeof(RefWord) + sizeof(uint64_t));
  }

 private:
  std::unique_ptr<uint64_t[]> keys_;
  std::unique_ptr<RefWord[]> refs_;
  std::unique_ptr<uint64_t[]> stamps_;
  uint32_t count_ = 0;
  uint32_t superseded_count_ = 0;
  uint32_t capacity_ = 0;
};

}  // namespace engine_race

#endif  // ENGINE_RACE_INDEX_DELTA_H_
