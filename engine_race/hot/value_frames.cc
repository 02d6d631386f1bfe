#include "engine_race/hot/value_frames.h"

#include <algorithm>
#include <cstring>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/entry_codec.h"

namespace engine_race {

using l1::FrameKind;

Status ValueFrames::Create(Index* index, l1::FrameCache* cache, uint32_t value_bytes,
                           uint64_t max_bytes, std::unique_ptr<ValueFrames>* frames) {
  ENGINE_RACE_ASSERT(value_bytes <= cache->frame_bytes());
  ENGINE_RACE_ASSERT(&cache->epochs() == &index->epochs());
  frames->reset();
  const uint64_t max_count = max_bytes / cache->bytes_with_description();
  if (max_count == 0) return Status::Ok();
  return Guarded([&] {
    std::unique_ptr<ValueFrames> made(new ValueFrames(index, cache, value_bytes));
    index->SetFrameSlots(cache->owner_words());
    cache->SetOwner(FrameKind::kValue, &made->owner_,
                    static_cast<uint32_t>(std::min<uint64_t>(max_count, ~uint32_t{0})));
    *frames = std::move(made);
    return Status::Ok();
  });
}

// No word of the index leads to a value's frame afterwards.
ValueFrames::~ValueFrames() { cache_.RemoveOwner(FrameKind::kValue); }

bool ValueFrames::Keep(uint64_t key, ValueRef ref, const char* value, uint32_t frequency) noexcept {
  // A value that is in a frame is not offered.
  ENGINE_RACE_ASSERT(!ref.hot() && !ref.tombstone());
  const uint32_t frame = cache_.TakeFor(FrameKind::kValue, key, frequency);
  if (frame == l1::kNoFrame) return false;
  char* const copy = cache_.data(frame);
  std::memcpy(copy, value, value_bytes_);
  // Release: before the index leads to the frame. Pairs with the acquire in FrameSlots::NotedSlot.
  cache_.owner_words()[frame].store(ref.slot(), std::memory_order_release);
  // The copy is verified even if reads are not, so that no damaged value gets into a frame. If the
  // record was superseded since the value was read, Swizzle sees that by the reference.
  const auto swizzle = [&] {
    // As in Owner.
    const l1::EpochManager::Guard guard(cache_.epochs());
    return index_.Swizzle(key, ref, frame);
  };
  const bool installed = ValueMatches(copy, value_bytes_, ref.value_checksum()) &&
                         cache_.Install(frame, swizzle, /*counts_as_use=*/frequency != 0);
  if (!installed) cache_.GiveBack(frame);
  return installed;
}

ValueFrames::Admission ValueFrames::AdmitIfFree(uint64_t key, ValueRef ref,
                                                const char* value) noexcept {
  {
    const l1::EpochManager::Guard guard(cache_.epochs());
    ValueRef newest;
    BlockLookup lookup;
    const Status status = Guarded([&] { return index_.FindHot(key, &newest, &lookup); });
    if (status.code() == Code::kIncomplete) return Admission::kNoBlock;
    if (!status.ok() || newest != ref) return Admission::kRefused;
  }
  return Keep(key, ref, value, /*frequency=*/0) ? Admission::kAdmitted : Admission::kRefused;
}

bool ValueFrames::Owner::IsNewest(uint64_t key, uint32_t frame, ValueRef* ref) const noexcept {
  // The pool calls its owner outside the epoch.
  const l1::EpochManager::Guard guard(epochs_);
  // A record that is reached through a block that is in no frame is not found.
  BlockLookup lookup;
  const Status status = Guarded([&] { return index_.FindHot(key, ref, &lookup); });
  return status.ok() && ref->hot() && ref->frame() == frame;
}

bool ValueFrames::Owner::IsOrphan(uint32_t frame, l1::FrameInfo* info) noexcept {
  ValueRef ref;
  return !IsNewest(info->tag, frame, &ref);
}

l1::FrameOwner::Cooled ValueFrames::Owner::Cool(uint32_t frame, l1::FrameInfo* info) noexcept {
  if (IsOrphan(frame, info)) return Cooled::kOrphaned;
  const l1::EpochManager::Guard guard(epochs_);
  const bool cooled = index_.Cool(info->tag, frame);
  return cooled ? Cooled::kCooling : Cooled::kOrphaned;
}

bool ValueFrames::Owner::WasHeated(uint32_t frame, l1::FrameInfo* info) noexcept {
  ValueRef ref;
  return IsNewest(info->tag, frame, &ref) && !ref.cooling();
}

bool ValueFrames::Owner::Unswizzle(uint32_t frame, l1::FrameInfo* info,
                                   bool only_cooling) noexcept {
  const l1::EpochManager::Guard guard(epochs_);
  // An orphan's frame is free to be evicted.
  return index_.Unswizzle(info->tag, frame, only_cooling) != Index::Unswizzled::kHeated;
}

}  // namespace engine_race
