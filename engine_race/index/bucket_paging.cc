// Paging of a bucket: moves its runs between memory and extents, and merges the deltas of paged
// parts. A bucket is claimed meanwhile: its parts stay where they are, and only deltas change.
#include <algorithm>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/index/bucket_index.h"
#include "engine_race/index/run_extent.h"

namespace engine_race {
namespace {

// The misses in one run after which its bucket is made flat, if the index fits its memory.
constexpr uint32_t kMissesToFlatten = 4;

// Calls visit(i) for each record of the delta `now` that its copy `earlier` does not have.
template <typename VisitFn>
void ForEachLater(const Delta& now, const Delta& earlier, const FrameSlots& slots,
                  const VisitFn& visit) {
  uint32_t at = 0;
  const auto precedes = [&](uint32_t i) {
    const uint64_t key = earlier.keys()[at];
    if (key != now.keys()[i]) return key < now.keys()[i];
    // The newest record of a key comes first.
    return earlier.stamps()[at] > now.stamps()[i];
  };
  for (uint32_t i = 0; i < now.count(); ++i) {
    while (at < earlier.count() && precedes(i)) ++at;
    const bool is_there = at < earlier.count() && earlier.keys()[at] == now.keys()[i] &&
                          earlier.stamps()[at] == now.stamps()[i] &&
                          earlier.refs()[at].Load() == slots.SlotOf(now.refs()[i]);
    if (!is_there) visit(i);
  }
}

}  // namespace

bool BucketIndex::Claim() noexcept {
  // First of all: the bucket's state may change while another thread has it claimed.
  if (claimed_.load(std::memory_order_relaxed)) return false;
  // Acquire pairs with the release in Install, which may come without the log's lock.
  // Damaged buckets keep tombstones, which extents do not have.
  // The first record of an empty bucket brings it a row, claimed or not.
  const bool is_fit =
      state_.load(std::memory_order_acquire) == State::kInstalled && !damaged_ && !row_.empty();
  claimed_.store(is_fit, std::memory_order_relaxed);
  return is_fit;
}

void BucketIndex::Release() noexcept {
  ENGINE_RACE_ASSERT(claimed_.load(std::memory_order_relaxed));
  claimed_.store(false, std::memory_order_relaxed);
}

Status BucketIndex::WriteRuns(l1::ExtentImage* image, bool pages_out) {
  for (size_t i = 0; i < row_.size(); ++i) {
    Part& part = row_.part(i);
    if (part.run.count() == 0) continue;
    if (part.extent == nullptr) {
      PagedRunPtr extent;
      ENGINE_RACE_RETURN_IF_ERROR(paging()->Write(part.run, frames_, part.births, image, &extent));
      const std::lock_guard lock(lock_);
      part.extent = std::move(extent);
      shared_->part_bytes().Change(sizeof(PagedRun), 0);
    }
    if (pages_out) PageOut(&part);
  }
  if (pages_out) TryPublish();
  return Status::Ok();
}

void BucketIndex::PageOut(Part* part) noexcept {
  SortedRun gone;
  const std::lock_guard lock(lock_);
  const RunCounts before = CountsOf(*part);
  // Before the run's memory is freed.
  Hide();
  gone = std::move(part->run);
  part->run = SortedRun();
  ForGrowth().CountRuns(CountsOf(*part), before);
  shared_->part_bytes().Change(0, gone.memory_bytes());
}

Status BucketIndex::ReadExtent(const Part& part, SlabAllocator* slabs, SortedRun* run) {
  Status status = ReadRun(*part.extent, paging()->store(), slabs, shared_->memory(), run);
  extent_lost_.store(status.code() == Code::kCorruption || status.code() == Code::kIOError,
                     std::memory_order_relaxed);
  return status;
}

Status BucketIndex::Flatten(SlabAllocator* slabs) {
  for (size_t i = 0; i < row_.size(); ++i) {
    Part& part = row_.part(i);
    if (!part.is_paged()) continue;
    SortedRun run;
    ENGINE_RACE_RETURN_IF_ERROR(ReadExtent(part, slabs, &run));
    // All its words are void. It stays where it is.
    if (run.count() == 0) continue;
    {
      const std::lock_guard lock(lock_);
      Hide();
      const RunCounts before = CountsOf(part);
      shared_->part_bytes().Change(run.memory_bytes(), 0);
      part.run = std::move(run);
      ForGrowth().CountRuns(CountsOf(part), before);
    }
    // Hot values that were reached through the blocks are orphans from here on.
    paging()->blocks().Evict(*part.extent);
  }
  TryPublish();
  return Status::Ok();
}

Status BucketIndex::MergePaged(uint32_t min_records, l1::ExtentImage* image, LockedFn locked) {
  const auto wants_merge = [&](size_t index) {
    const std::shared_lock lock(lock_);
    const Part& part = row_.part(index);
    return part.is_paged() && part.delta.count() > 0 &&
           (part.delta.count() >= std::min(min_records, PagedDeltaLimit(part.run_count())) ||
            part.is_crossed());
  };
  // From the back, because a merge may put two parts in the place of one.
  for (size_t i = row_.size(); i-- > 0;) {
    if (wants_merge(i)) ENGINE_RACE_RETURN_IF_ERROR(MergePart(i, image, locked));
  }
  TryPublish();
  return Status::Ok();
}

Status BucketIndex::MergeFlat(bool only_crossed, LockedFn locked) {
  Status status;
  // From the back: a merge may take the part before it along.
  for (size_t i = row_.size(); i-- > 0 && status.ok();) {
    locked([&] {
      if (i >= row_.size()) return;
      const Part& part = row_.part(i);
      if (part.is_paged() || part.delta.count() == 0) return;
      if (only_crossed && !part.is_crossed()) return;
      status = growth_.Merge(ForGrowth(), i);
      const std::lock_guard lock(lock_);
      growth_.FindFull(row_);
    });
  }
  TryPublish();
  return status;
}

Status BucketIndex::MergeOne(size_t index) {
  l1::ExtentImage image;
  ENGINE_RACE_RETURN_IF_ERROR(l1::ExtentImage::Create(&image));
  // The caller holds the log's lock of the bucket.
  return MergePart(index, &image, [](FunctionRef<void()> work) { work(); });
}

Status BucketIndex::MergePart(size_t index, l1::ExtentImage* image, LockedFn locked) {
  Part& part = row_.part(index);
  const Placement& memory = shared_->memory();
  SortedRun run;
  ENGINE_RACE_RETURN_IF_ERROR(ReadExtent(part, nullptr, &run));
  Delta taken;
  MergeSource source;
  uint64_t births = 0;
  {
    const std::shared_lock lock(lock_);
    ENGINE_RACE_RETURN_IF_ERROR(part.delta.CopySlots(frames_, &taken));
    part.NoteCopied();
    births = births_.load(std::memory_order_relaxed);
    source = {&run, &taken, part.history, part.extent->max_key};
  }
  // After the delta was copied: later views show none of what the merge drops.
  const LiveVersions live = shared_->views().Live();
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(MergeParts({&source, 1}, live, frames_, /*keep_tombstones=*/false,
                                         growth_.split_keys(), &replacement, memory));
  run = SortedRun();
  shared_->CountMerge(replacement.record_count);
  const bool keeps_history = replacement.keeps_history();
  for (const auto& fresh : replacement.parts) {
    fresh->births = births;
    if (fresh->run.count() == 0 || paging()->faults().is_pausing()) continue;
    const Status written = paging()->Write(fresh->run, frames_, births, image, &fresh->extent);
    if (written.code() == Code::kOutOfMemory) return written;
    // A run that cannot be written stays in memory. The keeper reports the failure and tries again.
    if (written.ok()) fresh->run = SortedRun();
  }
  // What was replaced is freed without locks.
  PartRow replaced;
  Status status;
  locked([&] { status = ReplaceMerged(index, std::move(replacement), taken, &replaced); });
  if (status.ok() && keeps_history) BucketGrowth::SweepHistory(ForGrowth(), live);
  return status;
}

// Puts the merged parts in place of the old one. Records that came since the copy `taken` go into
// their deltas. Under the log's lock of the bucket.
Status BucketIndex::ReplaceMerged(size_t index, PartReplacement replacement, const Delta& taken,
                                  PartRow* replaced) {
  const Delta& delta = row_.part(index).delta;
  // No record comes meanwhile.
  const BucketMoment later_since = row_.part(index).later_since;
  size_t later_count = 0;
  ForEachLater(delta, taken, frames_, [&](uint32_t) { ++later_count; });
  try {
    if (replacement.parts.empty() && !replacement.keeps_old_run) {
      // An empty part keeps the keys of the old one, and takes its later records.
      replacement.parts.push_back(std::make_unique<Part>());
      replacement.first_keys.push_back(0);
    }
    std::vector<Delta> deltas(replacement.parts.size() + (replacement.keeps_old_run ? 1 : 0));
    for (Delta& each : deltas) {
      if (later_count == 0) break;
      ENGINE_RACE_RETURN_IF_ERROR(
          Delta::Create(static_cast<uint32_t>(later_count + later_count / 4 + 16), &each));
    }
    BucketGrowth::Replace(
        ForGrowth(), index, 1, std::move(replacement), replaced, [&](const Delta& old) {
          // Words may have been swizzled since they were counted, but no record has come.
          ForEachLater(old, taken, frames_, [&](uint32_t i) {
            const size_t target = row_.PartOf(old.keys()[i]);
            ENGINE_RACE_ASSERT(target >= index && target - index < deltas.size());
            deltas[target - index].Append(old.keys()[i], old.refs()[i].Load(), old.stamps()[i]);
          });
          for (size_t i = 0; i < deltas.size(); ++i) {
            if (deltas[i].count() == 0) continue;
            shared_->part_bytes().Change(deltas[i].memory_bytes(), 0);
            row_.part(index + i).delta = std::move(deltas[i]);
            row_.part(index + i).delta_since = later_since;
          }
          growth_.FindFull(row_);
        });
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("index: no memory for merged parts");
  }
  return Status::Ok();
}

BucketMoment BucketIndex::DeltasSince(const BucketMoment& now) const {
  const std::shared_lock lock(lock_);
  return DeltasSinceLocked(now);
}

BucketMoment BucketIndex::DeltasSinceLocked(const BucketMoment& now) const {
  BucketMoment since = now;
  for (size_t i = 0; i < row_.size(); ++i) {
    const Part& part = row_.part(i);
    if (part.delta.count() == 0) continue;
    since.record_count = std::min(since.record_count, part.delta_since.record_count);
    since.births = std::min(since.births, part.delta_since.births);
  }
  return since;
}

bool BucketIndex::Describe(const BucketMoment& now, std::vector<format::IndexExtent>* extents,
                           BucketMoment* since) const {
  // One hold for all of it: Install ends without the log's lock, and brings records into deltas.
  const std::shared_lock lock(lock_);
  if (state_.load(std::memory_order_relaxed) != State::kInstalled || damaged_ || unread_) {
    return false;
  }
  for (size_t i = 0; i < row_.size(); ++i) {
    const Part& part = row_.part(i);
    if (part.run.count() > 0 && part.extent == nullptr) return false;
    if (part.extent == nullptr) continue;
    const PagedRun& run = *part.extent;
    extents->push_back({run.min_key, run.max_key, run.id.generation, run.id.place, run.record_count,
                        0, 0, run.births});
  }
  *since = DeltasSinceLocked(now);
  return true;
}

uint64_t BucketIndex::MergedBytes() const {
  const std::shared_lock lock(lock_);
  uint64_t bytes = 0;
  for (size_t i = 0; i < row_.size(); ++i) {
    const Part& part = row_.part(i);
    if (!part.is_paged() || part.delta.count() == 0) continue;
    bytes += format::IndexExtentBytesOf(part.run_count() + part.delta.count());
  }
  return bytes;
}

uint64_t BucketIndex::UnwrittenBytes() const {
  const std::shared_lock lock(lock_);
  uint64_t bytes = 0;
  for (size_t i = 0; i < row_.size() && !damaged_; ++i) {
    const Part& part = row_.part(i);
    if (part.extent != nullptr || part.run.count() == 0) continue;
    bytes += format::IndexExtentBytesOf(part.run.count());
  }
  return bytes;
}

void BucketIndex::HideLost() noexcept {
  const std::lock_guard lock(lock_);
  MarkUnread();
  Hide();
}

void BucketIndex::Lose(bool rests) noexcept {
  ENGINE_RACE_ASSERT(unread_);
  PartRow lost;
  SwapRow(&lost);
  shared_->CountBytes(0, lost.history_bytes());
  const std::lock_guard lock(lock_);
  rests_ = rests;
  FreeNoted();
  growth_.Forget();
  extent_lost_.store(false, std::memory_order_relaxed);
  // Relaxed: the log's lock of the bucket orders it before the next record.
  state_.store(State::kEmpty, std::memory_order_relaxed);
}

bool BucketIndex::EndRest() noexcept {
  // A thread that moves its runs must not see how they count change.
  if (claimed_.load(std::memory_order_relaxed)) return false;
  // Acquire: pairs with the release in Install. One that is out of the index begins another rest.
  if (state_.load(std::memory_order_acquire) != State::kInstalled || !rests_) return true;
  const std::lock_guard lock(lock_);
  rests_ = false;
  RunCounts counts = row_.run_counts();
  // Records on disk have been counted all the time.
  counts.paged_record_count = 0;
  ForGrowth().CountRuns(counts, {});
  return true;
}

bool BucketIndex::ForEachCold(uint64_t first_key, uint64_t last_key,
                              FunctionRef<bool(const PagedRun&)> visit) const {
  EpochGuard guard;
  EnterEpoch(&guard);
  const std::shared_lock lock(lock_);
  if (row_.empty() || paging() == nullptr) return true;
  const BlockFrames& frames = paging()->blocks();
  const auto is_hot = [&frames](const PagedRun& run) {
    bool hot = frames.FencesOf(run) != nullptr;
    for (uint32_t i = 1; hot && i <= run.block_count; ++i) hot = frames.BlockOf(run, i) != nullptr;
    return hot;
  };
  const size_t end = row_.PartOf(last_key);
  for (size_t i = row_.PartOf(first_key); i <= end; ++i) {
    const Part& part = row_.part(i);
    if (part.is_paged() && !is_hot(*part.extent) && !visit(*part.extent)) return false;
  }
  return true;
}

bool BucketIndex::HasExtent(const l1::ExtentId& extent) const {
  const std::shared_lock lock(lock_);
  for (size_t i = 0; i < row_.size(); ++i) {
    if (row_.part(i).is_paged() && row_.part(i).extent->id == extent) return true;
  }
  return false;
}

const PagedRun* BucketIndex::PagedRunOf(uint64_t key) const {
  if (row_.empty()) return nullptr;
  const Part& part = row_.part(row_.PartOf(key));
  return part.is_paged() ? part.extent.get() : nullptr;
}

bool BucketIndex::SwizzleBlock(uint64_t key, const l1::ExtentId& extent, uint32_t block,
                               uint32_t frame) noexcept {
  const std::shared_lock lock(lock_);
  const PagedRun* const run = PagedRunOf(key);
  return run != nullptr && run->id == extent && paging()->blocks().Swizzle(*run, block, frame);
}

bool BucketIndex::CountsToFlatten(uint64_t key) const {
  const std::shared_lock lock(lock_);
  const PagedRun* const run = PagedRunOf(key);
  // Relaxed: a hint.
  return run != nullptr &&
         run->miss_count.fetch_add(1, std::memory_order_relaxed) % kMissesToFlatten ==
             kMissesToFlatten - 1;
}

}  // namespace engine_race
