// Swizzling and eviction: the changes of a bucket's words under the shared lock, which keeps the
// words where they are. And what becomes of a frame when its value is moved, under the lock.
#include <shared_mutex>

#include "engine_race/base/assert.h"
#include "engine_race/index/bucket_index.h"

namespace engine_race {

bool BucketIndex::Swizzle(uint64_t key, ValueRef ref, uint32_t frame) noexcept {
  ENGINE_RACE_ASSERT(!ref.hot());
  const std::shared_lock lock(lock_);
  if (damaged_ || unread_ || ref.tombstone()) return false;
  RefWord* const word = row_.Locate(key, Access(nullptr));
  return word != nullptr && word->Exchange(&ref, ref.InFrame(frame));
}

Index::Unswizzled BucketIndex::Unswizzle(uint64_t key, uint32_t frame, bool only_cooling) noexcept {
  using Unswizzled = Index::Unswizzled;
  const std::shared_lock lock(lock_);
  bool newest = false;
  RefWord* const word = row_.LocateFrame(key, frame, Access(nullptr), &newest);
  if (word == nullptr) return Unswizzled::kOrphaned;
  // Only the caller may make this word lead elsewhere, so only the cooling bit can change
  // meanwhile.
  ValueRef seen = word->Load();
  do {
    ENGINE_RACE_ASSERT(seen.hot() && seen.frame() == frame);
    if (newest && only_cooling && !seen.cooling()) return Unswizzled::kHeated;
  } while (!word->Exchange(&seen, seen.InSlot(frames_.NotedSlot(frame))));
  frames_.CountUnswizzle();
  return newest ? Unswizzled::kDone : Unswizzled::kOrphaned;
}

bool BucketIndex::TakeFrame(uint64_t key, ValueRef* hot) noexcept {
  RefWord* const word = row_.Locate(key, Access(nullptr));
  if (word == nullptr) return false;
  *hot = word->Load();
  if (!hot->hot()) return false;
  // Readers of a published run hold no lock, and load the word meanwhile.
  ValueRef seen = *hot;
  while (!word->Exchange(&seen, seen.InSlot(frames_.NotedSlot(hot->frame())))) {
  }
  frames_.CountUnswizzle();
  return true;
}

void BucketIndex::GiveFrame(uint64_t key, ValueRef ref, ValueRef hot) noexcept {
  frames_.NoteSlot(hot.frame(), ref.slot());
  RefWord* const word = row_.Locate(key, Access(nullptr));
  ENGINE_RACE_ASSERT(word != nullptr && word->Load() == ref);
  const ValueRef in_frame = ref.InFrame(hot.frame());
  static_cast<void>(word->Exchange(&ref, hot.cooling() ? in_frame.Cooling() : in_frame));
}

bool BucketIndex::Mark(uint64_t key, uint32_t frame, bool cooling) noexcept {
  const std::shared_lock lock(lock_);
  bool newest = false;
  RefWord* const word = row_.LocateFrame(key, frame, Access(nullptr), &newest);
  if (word == nullptr || !newest) return false;
  ValueRef seen = word->Load();
  // The frame may have been evicted before a late reader heats it.
  while (seen.hot() && seen.frame() == frame && seen.cooling() != cooling) {
    if (word->Exchange(&seen, cooling ? seen.Cooling() : seen.Heated())) return true;
  }
  return seen.hot() && seen.frame() == frame;
}

}  // namespace engine_race
