#include "engine_race/index/bucket_growth.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <span>
#include <utility>

#include "engine_race/base/assert.h"

namespace engine_race {
namespace {

Status NoMemory() { return Status::OutOfMemory("index: no memory for new records"); }

}  // namespace

size_t BucketGrowth::Put(const PartRow& row, size_t index, uint64_t key, ValueRef ref,
                         const ViewRegistry::WriteStamp& stamp) noexcept {
  Delta& delta = row.part(index).delta;
  size_t more_bytes = 0;
  if (delta.capacity() == 0) {
    ENGINE_RACE_ASSERT(spare_.capacity() > 0);
    delta = std::move(spare_);
    more_bytes = delta.memory_bytes();
  }
  ENGINE_RACE_ASSERT(!delta.full());
  delta.Put(key, ref, stamp.version, stamp.watched);
  if (delta.full()) full_part_ = static_cast<uint32_t>(index);
  return more_bytes;
}

Status BucketGrowth::MakeRoom(const Bucket& bucket) {
  if (bucket.row.empty()) {
    try {
      PartRow row = PartRow::OfNothing();
      const std::lock_guard lock(bucket.lock);
      bucket.row.Swap(&row);
      bucket.CountBytes(bucket.row.memory_bytes(), row.memory_bytes());
    } catch (const std::bad_alloc&) {
      return NoMemory();
    }
  }
  if (spare_.capacity() == 0) ENGINE_RACE_RETURN_IF_ERROR(Delta::Create(kFirstDelta, &spare_));
  if (full_part_ == kNoPart) return Status::Ok();
  const size_t index = full_part_;
  if (!DropUnseen(bucket, index)) {
    const uint32_t limit = DeltaLimit(SourceOf(bucket, index).record_count());
    ENGINE_RACE_RETURN_IF_ERROR(bucket.row.part(index).delta.capacity() < limit
                                    ? GrowDelta(bucket, index, limit)
                                    : Merge(bucket, index));
  }
  full_part_ = kNoPart;
  ENGINE_RACE_ASSERT(HasRoom(bucket.row));
  return Status::Ok();
}

// Drops superseded records that no live view shows from a full delta. True if that has made enough
// room. So short views beside a key that is often overwritten cost no merge.
bool BucketGrowth::DropUnseen(const Bucket& bucket, size_t index) {
  Delta& delta = bucket.row.part(index).delta;
  if (bucket.pinned == nullptr || delta.superseded_count() < delta.capacity() / kDroppedFraction) {
    return false;
  }
  const LiveVersions live = bucket.pinned->views().Live();
  const std::lock_guard lock(bucket.lock);
  delta.DropUnseen(live);
  return delta.count() <= delta.capacity() - delta.capacity() / kDroppedFraction;
}

Status BucketGrowth::GrowDelta(const Bucket& bucket, size_t index, uint32_t limit) {
  Part& part = bucket.row.part(index);
  Delta larger;
  ENGINE_RACE_RETURN_IF_ERROR(
      Delta::Create(std::min(part.delta.capacity() * kDeltaGrowth, limit), &larger));
  {
    const std::lock_guard lock(bucket.lock);
    // Copied under the lock, because a word that was unswizzled after the copy would lead to its
    // frame again.
    larger.CopyFrom(part.delta);
    std::swap(part.delta, larger);
    bucket.CountBytes(part.delta.memory_bytes(), larger.memory_bytes());
  }
  return Status::Ok();
}

MergeSource BucketGrowth::SourceOf(const Bucket& bucket, size_t index) {
  // A sweep may exchange the history.
  const std::shared_lock lock(bucket.lock);
  const Part& part = bucket.row.part(index);
  return {&part, part.history};
}

// A neighbour that should be merged with the part at `index`; `index` if there is none. Otherwise
// parts that were split because of their history would stay small for ever.
size_t BucketGrowth::NeighbourOf(const Bucket& bucket, size_t index, const MergeSource& source) {
  const auto fits = [&](size_t neighbour) {
    const size_t count = SourceOf(bucket, neighbour).record_count() + source.record_count();
    return count + source.part->delta.count() <= bucket.split_keys / 2;
  };
  if (index + 1 < bucket.row.size() && fits(index + 1)) return index + 1;
  return index > 0 && fits(index - 1) ? index - 1 : index;
}

Status BucketGrowth::Merge(const Bucket& bucket, size_t index) {
  PinnedBuckets* const pinned = bucket.pinned;
  const MergeSource source = SourceOf(bucket, index);
  const size_t neighbour = NeighbourOf(bucket, index, source);
  const size_t first = std::min(index, neighbour);
  const size_t count = neighbour == index ? 1 : 2;
  const std::array<MergeSource, 2> sources = {SourceOf(bucket, first),
                                              SourceOf(bucket, first + count - 1)};
  LiveVersions live;
  if (pinned != nullptr) live = pinned->views().Live();
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(MergeParts(std::span(sources).first(count), live, bucket.frames,
                                         bucket.keeps_tombstones, bucket.split_keys, &replacement,
                                         pinned != nullptr ? pinned->memory() : Placement()));
  if (pinned != nullptr) pinned->CountMerge(replacement.record_count);
  bool keeps_history = false;
  for (const auto& part : replacement.parts) keeps_history |= part->history != nullptr;
  // Without `pinned` there are no views, and so there is no history.
  ENGINE_RACE_ASSERT(!keeps_history || pinned != nullptr);
  try {
    Replace(bucket, first, count, std::move(replacement));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  if (keeps_history) {
    pinned->Add(bucket.link);
    // A view that was released before Add requested no sweep.
    if (pinned->views().Oldest() != live.oldest()) pinned->RequestSweep();
  }
  return Status::Ok();
}

void BucketGrowth::Replace(const Bucket& bucket, size_t index, size_t count,
                           PartReplacement replacement) {
  PartRow& row = bucket.row;
  if (replacement.parts.empty() && !replacement.keeps_old_run && row.size() == count) {
    replacement.parts.push_back(std::make_unique<Part>());
    replacement.first_keys.push_back(0);
  }
  size_t fresh_history_bytes = 0;
  uint64_t fresh_bytes = 0;
  for (const auto& part : replacement.parts) {
    fresh_history_bytes += part->history_bytes();
    fresh_bytes += part->memory_bytes() - part->history_bytes();
  }
  PartRow room = row.MakeRoom(index, count, replacement);
  // Once before the lock is taken, so that little is left to do under it.
  replacement.CopyHotWordsAgain(bucket.frames);
  Delta merged;

  // The replaced parts end in `merged` and `room`, and are freed after the lock is released.
  const std::lock_guard lock(bucket.lock);
  replacement.CopyHotWordsAgain(bucket.frames);
  size_t gone_history_bytes = 0;
  uint64_t gone_bytes = 0;
  if (replacement.keeps_old_run) {
    std::swap(row.part(index).delta, merged);
    gone_bytes = merged.memory_bytes();
  } else {
    for (size_t i = index; i < index + count; ++i) {
      gone_history_bytes += row.part(i).history_bytes();
      gone_bytes += row.part(i).memory_bytes() - row.part(i).history_bytes();
    }
  }
  row.Replace(index, count, &replacement, &room);
  if (bucket.pinned != nullptr) bucket.pinned->CountBytes(fresh_history_bytes, gone_history_bytes);
  bucket.CountBytes(fresh_bytes + row.own_bytes(), gone_bytes + room.own_bytes());
}

}  // namespace engine_race
