// Hot values: frames to which the index leads instead of to slots of the log.
//
// A read enters the epoch and asks the index. It finds a slot, to be read from the log, or a frame.
// Values that were read from the log are offered. FrameCache decides whether a value gets a frame.
// It also keeps the blocks of the index, or it has the epochs of the one that does.
//
// A frame is not written to while it can be reached, so nothing is ever written back. When a newer
// record supersedes the frame's record, the frame is an orphan. It is evicted when the hand reaches
// it, however often its key is read.
//
// Thread-safe. The index and the cache outlive it. When it is destroyed no call may be running, and
// the index leads to no value's frame afterwards.
#ifndef ENGINE_RACE_HOT_VALUE_FRAMES_H_
#define ENGINE_RACE_HOT_VALUE_FRAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine_race/base/assert.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/l1/epoch.h"
#include "engine_race/l1/frame_cache.h"
#include "engine_race/l1/frame_info.h"

namespace engine_race {

class ValueFrames final {
 public:
  // Keeps values of `value_bytes` in frames of `cache`: at most as many as fit into `max_bytes`
  // with their descriptions. These frames are at least as large, and have the epochs of the index.
  // *frames is null when not a single one fits. kOutOfMemory.
  static Status Create(Index* index, l1::FrameCache* cache, uint32_t value_bytes,
                       uint64_t max_bytes, std::unique_ptr<ValueFrames>* frames);
  ~ValueFrames();

  // The bytes of a frame that is made for values of that size.
  static size_t FrameBytesFor(uint32_t value_bytes) {
    return RoundUp(value_bytes, alignof(l1::FrameInfo));
  }
  l1::FrameCache& cache() const { return cache_; }

  // Finds the newest value of `key`. If it is in a frame, calls use(const char* value) and sets
  // *hot. Otherwise *ref is the slot to read. Fails like Index::Find, also with kIncomplete. `use`
  // must not wait for anything; it may throw. `window` is as for Index::Find. With a version it
  // finds the value that a view of it shows, counts no read of the key, and heats no frame.
  // Scans read so.
  template <typename UseFn>
  Status Find(uint64_t key, ValueRef* ref, bool* hot, BlockLookup* lookup, const UseFn& use,
              const RunWindow& window = {}, uint64_t version = kLatestVersion);

  // Calls take(i, value) for each of `entries` whose value, as a view of `version` shows it, is in
  // a frame. Counts nothing. After several entries in a row without a frame it looks at every 16th
  // of the others, until one is in a frame. With values below 1 KiB it ends there. `take` must not
  // wait for anything.
  template <typename TakeFn>
  void TakeHot(std::span<const IndexEntry> entries, uint64_t version, const TakeFn& take);

  // Fetches the memory that Offer reads first. To be called when the value was read, before it is
  // verified. A read from a device takes so long that the memory has left the caches.
  void PrepareOffer(uint64_t key) const { cache_.Prefetch(key); }
  // Notes that `key` was read and found at `ref`, a slot of the log. Keeps a copy of `value` if
  // that is worth a frame and matches its checksum. Not from inside Find.
  void Offer(uint64_t key, ValueRef ref, const char* value) noexcept {
    (void)Keep(key, ref, value, cache_.Note(key));
  }

  // Whether a value that a walk has read may be admitted. A hint. Walks read small values from the
  // log faster than from frames.
  bool MayAdmit() const { return WalksAdmit() && cache_.HasFree(l1::FrameKind::kValue); }
  // Copies such a value into a free frame. Evicts nothing, and FrameCache::UseCount does not count
  // it. kNoBlock: the block of the key is in no frame. kRefused: the value is superseded, or in a
  // frame already, or no frame is free.
  enum class Admission { kAdmitted, kRefused, kNoBlock };
  Admission AdmitIfFree(uint64_t key, ValueRef ref, const char* value) noexcept;

 private:
  // Finds the swips of the frames in the index. Enters the epoch for that: the pool's mutex does
  // not keep blocks of another cache where they are.
  class Owner final : public l1::FrameOwner {
   public:
    Owner(Index* index, l1::EpochManager* epochs) : index_(*index), epochs_(*epochs) {}
    Cooled Cool(uint32_t frame, l1::FrameInfo* info) noexcept override;
    bool IsOrphan(uint32_t frame, l1::FrameInfo* info) noexcept override;
    bool WasHeated(uint32_t frame, l1::FrameInfo* info) noexcept override;
    bool Unswizzle(uint32_t frame, l1::FrameInfo* info, bool only_cooling) noexcept override;
    // A value's frame has nothing beside its bytes.
    void Release(uint32_t /*frame*/, l1::FrameInfo* /*info*/) noexcept override {}

   private:
    // Whether the newest record of `key` leads to the frame. *ref is that record.
    bool IsNewest(uint64_t key, uint32_t frame, ValueRef* ref) const noexcept;

    Index& index_;
    l1::EpochManager& epochs_;
  };

  ValueFrames(Index* index, l1::FrameCache* cache, uint32_t value_bytes)
      : index_(*index),
        cache_(*cache),
        value_bytes_(value_bytes),
        owner_(index, &cache->epochs()) {}

  static constexpr uint32_t kMinWalkedBytes = 1024;
  bool WalksAdmit() const { return value_bytes_ >= kMinWalkedBytes; }
  bool Keep(uint64_t key, ValueRef ref, const char* value, uint32_t frequency) noexcept;

  Index& index_;
  l1::FrameCache& cache_;
  const uint32_t value_bytes_;
  Owner owner_;
};

template <typename UseFn>
Status ValueFrames::Find(uint64_t key, ValueRef* ref, bool* hot, BlockLookup* lookup,
                         const UseFn& use, const RunWindow& window, uint64_t version) {
  const bool is_latest = version == kLatestVersion;
  // If reads from frames are noted too, the sketch's line is fetched before all else.
  const bool scarce = is_latest && cache_.AreScarce(l1::FrameKind::kValue);
  if (scarce) cache_.Prefetch(key);
  {
    l1::EpochManager::Guard guard(cache_.epochs());
    Status status = index_.FindHot(key, ref, lookup, window, version);
    if (lookup->TakeHit()) guard.CountBlockHit();
    *hot = status.ok() && ref->hot();
    if (!*hot) {
      // A lookup that waits for a block is repeated, and counted then.
      if (status.code() != Code::kIncomplete) guard.CountMiss();
      return status;
    }
    guard.CountHit();
    ENGINE_RACE_ASSERT(ref->frame() < cache_.frame_count());
    use(static_cast<const char*>(cache_.data(ref->frame())));
    if (is_latest && ref->cooling()) [[unlikely]] {
      index_.Heat(key, ref->frame());
    }
  }
  if (scarce) cache_.Note(key);
  return Status::Ok();
}

template <typename TakeFn>
void ValueFrames::TakeHot(std::span<const IndexEntry> entries, uint64_t version,
                          const TakeFn& take) {
  constexpr uint32_t kMaxMissesInARow = 16;
  // Walks admit values in runs that are longer than this.
  constexpr size_t kStrideOfLooks = 16;
  // Nothing that was retired meanwhile is freed, so no guard stays for long.
  constexpr size_t kGuardedEntries = 32;
  uint32_t miss_count = 0;
  for (size_t begin = 0; begin < entries.size(); begin += kGuardedEntries) {
    const size_t end = std::min(begin + kGuardedEntries, entries.size());
    l1::EpochManager::Guard guard(cache_.epochs());
    for (size_t i = begin; i < end; ++i) {
      if (miss_count >= kMaxMissesInARow) {
        if (!WalksAdmit()) return;
        if (i % kStrideOfLooks != 0) continue;
      }
      ValueRef ref;
      BlockLookup lookup;
      const Status status = index_.FindHot(entries[i].key, &ref, &lookup, {}, version);
      if (!status.ok() || !ref.hot()) {
        ++miss_count;
        continue;
      }
      miss_count = 0;
      take(i, static_cast<const char*>(cache_.data(ref.frame())));
    }
  }
}

}  // namespace engine_race

#endif  // ENGINE_RACE_HOT_VALUE_FRAMES_H_
