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
#include "engine_race/base/guarded.h"
#include "engine_race/base/lower_bound.h"
#include "engine_race/index/bucket_index.h"

namespace engine_race {

void BucketGrowth::Bucket::CountRuns(RunCounts now, RunCounts before) const noexcept {
  if (shared == nullptr || shared->paging() == nullptr) return;
  if (!may_be_paged) now.flat_run_count = before.flat_run_count = 0;
  shared->paging()->CountRuns(now, before);
}

size_t BucketGrowth::Put(const PartRow& row, size_t index, uint64_t key, ValueRef ref,
                         const ViewRegistry::WriteStamp& stamp,
                         const BucketMoment& before) noexcept {
  row.part(index).NoteRecord(before);
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
  const Part& part = bucket.row.part(index);
  if (!DropUnseen(bucket, index)) {
    const uint32_t capacity = part.delta.capacity();
    size_t record_count = 0;
    bool is_paged = false;
    {
      // The keeper may be moving the run.
      const std::shared_lock lock(bucket.lock);
      is_paged = part.is_paged();
      record_count = is_paged ? part.run_count() : SourceOf(part).record_count();
    }
    if (is_paged) {
      ENGINE_RACE_RETURN_IF_ERROR(MakeRoomInPaged(bucket, index, PagedDeltaLimit(record_count)));
    } else if (const uint32_t limit = DeltaLimit(record_count);
               capacity < limit || bucket.is_claimed || part.delta.count() == 0) {
      ENGINE_RACE_RETURN_IF_ERROR(GrowDelta(bucket, index, std::max(limit, capacity * 2)));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(Merge(bucket, index));
    }
  }
  full_part_ = kNoPart;
  ENGINE_RACE_ASSERT(HasRoom(bucket.row));
  return Status::Ok();
}

size_t BucketGrowth::FindLacking(const PartRow& row, size_t index, RoomFn wanted) {
  for (; index < row.size(); ++index) {
    const uint32_t count = wanted(index);
    const Delta& delta = row.part(index).delta;
    // None of them may become full: only the last full one would be known.
    if (count > 0 && delta.capacity() <= uint64_t{delta.count()} + count) break;
  }
  return index;
}

Status BucketGrowth::MakeRoomForMany(const Bucket& bucket, uint32_t count) {
  return MakeRoomWhere(bucket, [count](size_t) { return count; });
}

Status BucketGrowth::MakeRoomForKeys(const Bucket& bucket, std::span<const uint64_t> keys) {
  ENGINE_RACE_ASSERT(std::is_sorted(keys.begin(), keys.end()));
  return MakeRoomWhere(bucket, [&](size_t index) {
    // The first part has all keys below the second one.
    const size_t begin =
        index == 0 ? 0 : LowerBound(keys.data(), keys.size(), bucket.row.first_key(index));
    const size_t end = index + 1 == bucket.row.size()
                           ? keys.size()
                           : LowerBound(keys.data(), keys.size(), bucket.row.first_key(index + 1));
    return static_cast<uint32_t>(end - begin);
  });
}

// Each step makes a delta larger, or merges it and begins a new one.
Status BucketGrowth::MakeRoomWhere(const Bucket& bucket, RoomFn wanted) {
  uint32_t tried_capacity = 0;
  size_t tried = 0;
  size_t lacking = 0;
  while (true) {
    ENGINE_RACE_RETURN_IF_ERROR(MakeRoom(bucket));
    // A merge may have replaced the part before as well. If it left nothing of both, their keys
    // belong to the part before these.
    lacking = FindLacking(bucket.row, lacking - std::min<size_t>(lacking, 2), wanted);
    if (lacking == bucket.row.size()) return Status::Ok();
    const uint32_t capacity = bucket.row.part(lacking).delta.capacity();
    if (capacity != 0 && capacity == tried_capacity && lacking == tried) {
      // MakeRoom has only dropped records, and not enough of them.
      ENGINE_RACE_RETURN_IF_ERROR(GrowDelta(bucket, lacking, 2 * capacity));
      continue;
    }
    tried_capacity = capacity;
    tried = lacking;
    if (capacity != 0) {
      full_part_ = static_cast<uint32_t>(lacking);
      continue;
    }
    // For the batch alone. A delta beyond its limit slows every write until it is full and merged.
    const uint32_t wanted_capacity = std::max(wanted(lacking) + 1, kFirstDelta);
    ENGINE_RACE_RETURN_IF_ERROR(GiveDelta(bucket, lacking, wanted_capacity));
  }
}

// Gives a part without a delta an empty one.
Status BucketGrowth::GiveDelta(const Bucket& bucket, size_t index, uint32_t capacity) const {
  Delta fresh;
  ENGINE_RACE_RETURN_IF_ERROR(Delta::Create(capacity, &fresh));
  const std::lock_guard lock(bucket.lock);
  bucket.row.part(index).delta = std::move(fresh);
  bucket.CountBytes(bucket.row.part(index).delta.memory_bytes(), 0);
  return Status::Ok();
}

// Drops superseded records that no live view shows from a full delta. True if that has made enough
// room. So short views beside a key that is often overwritten cost no merge.
bool BucketGrowth::DropUnseen(const Bucket& bucket, size_t index) {
  Delta& delta = bucket.row.part(index).delta;
  if (bucket.shared == nullptr || delta.superseded_count() < delta.capacity() / kDroppedFraction) {
    return false;
  }
  const LiveVersions live = bucket.shared->views().Live();
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

// Deltas of paged parts are merged by the keeper. Where it cannot keep up, or memory is
// gone, the writer merges.
Status BucketGrowth::MakeRoomInPaged(const Bucket& bucket, size_t index, uint32_t limit) {
  const uint32_t capacity = bucket.row.part(index).delta.capacity();
  Paging* const paging = bucket.shared->paging();
  // What an opening brings into deltas is merged at once afterwards.
  const bool memory_is_gone =
      capacity >= kHurriedDelta && bucket.index->is_installed() && paging->HasLargeDeltas();
  if (capacity < limit && !memory_is_gone) return GrowDelta(bucket, index, limit);
  // An empty one gives nothing to merge.
  if (bucket.row.part(index).delta.count() == 0) return GrowDelta(bucket, index, capacity * 2);
  const bool keeper_is_late =
      paging->may_write() && (capacity >= kLateFactor * limit || memory_is_gone);
  if (keeper_is_late && !bucket.is_claimed && paging->writer_merges().try_acquire()) {
    const Status merged = Guarded([&] { return bucket.index->MergeOne(index); });
    paging->writer_merges().release();
    if (merged.ok()) return Status::Ok();
  }
  // Where too many writers merge, or an extent cannot be read or written, the write must not fail.
  // The keeper finds out which.
  paging->Ask(bucket.index, Paging::Work::kMerge);
  return GrowDelta(bucket, index, capacity * 2);
}

void BucketGrowth::FindFull(const PartRow& row) noexcept {
  full_part_ = kNoPart;
  for (size_t i = 0; i < row.size(); ++i) {
    const Delta& delta = row.part(i).delta;
    if (delta.capacity() > 0 && delta.full()) full_part_ = static_cast<uint32_t>(i);
  }
}

MergeSource BucketGrowth::SourceOf(const Bucket& bucket, size_t index) {
  // A sweep may exchange the history.
  const std::shared_lock lock(bucket.lock);
  return SourceOf(bucket.row.part(index));
}

// A neighbour that should be merged with the part at `index`; `index` if there is none. Otherwise
// parts that were split because of their history would stay small for ever.
size_t BucketGrowth::NeighbourOf(const Bucket& bucket, size_t index,
                                 const MergeSource& source) const {
  const auto fits = [&](size_t neighbour) {
    if (bucket.row.part(neighbour).is_paged()) return false;
    const size_t count = SourceOf(bucket, neighbour).record_count() + source.record_count();
    return count + source.delta->count() <= split_keys_ / 2;
  };
  if (index + 1 < bucket.row.size() && fits(index + 1)) return index + 1;
  return index > 0 && fits(index - 1) ? index - 1 : index;
}

Status BucketGrowth::Merge(const Bucket& bucket, size_t index) const {
  BucketShared* const shared = bucket.shared;
  const MergeSource source = SourceOf(bucket, index);
  const size_t neighbour = NeighbourOf(bucket, index, source);
  const size_t first = std::min(index, neighbour);
  const size_t count = neighbour == index ? 1 : 2;
  const std::array<MergeSource, 2> sources = {SourceOf(bucket, first),
                                              SourceOf(bucket, first + count - 1)};
  LiveVersions live;
  if (shared != nullptr) live = shared->views().Live();
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(MergeParts(std::span(sources).first(count), live, bucket.frames,
                                         bucket.keeps_tombstones, split_keys_, &replacement,
                                         shared != nullptr ? shared->memory() : Placement()));
  if (shared != nullptr) shared->CountMerge(replacement.record_count);
  for (const auto& part : replacement.parts) part->births = bucket.births;
  const bool keeps_history = replacement.keeps_history();
  // Without `shared` there are no views, and so there is no history.
  ENGINE_RACE_ASSERT(!keeps_history || shared != nullptr);
  try {
    PartRow replaced;
    Replace(bucket, first, count, std::move(replacement), &replaced, [](const Delta&) {});
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  if (keeps_history) SweepHistory(bucket, live);
  return Status::Ok();
}

void BucketGrowth::SweepHistory(const Bucket& bucket, const LiveVersions& live) noexcept {
  bucket.shared->Add(bucket.link);
  // A view that was released before Add requested no sweep.
  if (bucket.shared->views().Oldest() != live.oldest()) bucket.shared->RequestSweep();
}

void BucketGrowth::Replace(const Bucket& bucket, size_t index, size_t count,
                           PartReplacement replacement, PartRow* replaced,
                           FunctionRef<void(const Delta& old)> finish) {
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
  *replaced = row.MakeRoom(index, count, replacement);
  // Once before the lock is taken, so that little is left to do under it.
  replacement.CopyHotWordsAgain(bucket.frames);
  Delta merged;

  // Freed after the lock is released.
  const std::lock_guard lock(bucket.lock);
  replacement.CopyHotWordsAgain(bucket.frames);
  size_t gone_history_bytes = 0;
  uint64_t gone_bytes = 0;
  RunCounts fresh_runs;
  RunCounts gone_runs;
  for (const auto& part : replacement.parts) fresh_runs.Add(*part);
  if (replacement.keeps_old_run) {
    std::swap(row.part(index).delta, merged);
    row.part(index).crossed.Reset();
    gone_bytes = merged.memory_bytes();
  } else {
    for (size_t i = index; i < index + count; ++i) {
      gone_history_bytes += row.part(i).history_bytes();
      gone_bytes += row.part(i).memory_bytes() - row.part(i).history_bytes();
      gone_runs.Add(row.part(i));
    }
  }
  // Also where nothing was appended: a delta that was made for a batch may be empty.
  if (bucket.index != nullptr) bucket.index->Hide();
  row.Replace(index, count, &replacement, replaced);
  if (bucket.shared != nullptr) bucket.shared->CountBytes(fresh_history_bytes, gone_history_bytes);
  bucket.CountBytes(fresh_bytes + row.own_bytes(), gone_bytes + replaced->own_bytes());
  bucket.CountRuns(fresh_runs, gone_runs);
  // A row that was replaced keeps its parts in their places.
  finish(replacement.keeps_old_run ? merged : replaced->part(index).delta);
  if (bucket.index != nullptr) bucket.index->NoteIfEmpty();
}

}  // namespace engine_race
