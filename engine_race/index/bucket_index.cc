#include "engine_race/index/bucket_index.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

namespace engine_race {
namespace {

Status NoMemory() { return Status::OutOfMemory("index: no memory for new records"); }

}  // namespace

void BucketIndex::Expect() noexcept {
  // Relaxed: the log's bucket lock, taken by CutBucket, orders it before the first record.
  state_.store(State::kExpecting, std::memory_order_relaxed);
}

void BucketIndex::Forget() {
  Row no_parts;
  std::vector<uint64_t> no_bounds;
  SwapRow(&no_parts, &no_bounds);
  unchanged_.store(false, std::memory_order_relaxed);
  first_run_ = RunView();
  first_run_mapping_.reset();
  FreeNoted();
  spare_ = Delta();
  full_part_ = kNoPart;
  damaged_ = false;
  // Relaxed, here and above: nobody else is there.
  state_.store(State::kEmpty, std::memory_order_relaxed);
}

void BucketIndex::SwapRow(Row* parts, std::vector<uint64_t>* bounds) noexcept {
  std::lock_guard lock(lock_);
  parts_.swap(*parts);
  bounds_.swap(*bounds);
  CountBytes(RowBytes(parts_, bounds_), RowBytes(*parts, *bounds));
}

uint64_t BucketIndex::RowBytes(const Row& parts, const std::vector<uint64_t>& bounds) noexcept {
  uint64_t bytes = parts.capacity() * sizeof(parts[0]) + bounds.capacity() * sizeof(uint64_t);
  for (const auto& part : parts) bytes += part->memory_bytes() - part->history_bytes();
  return bytes;
}

Status BucketIndex::Install(Row parts, bool damaged) {
  try {
    std::vector<uint64_t> bounds;
    bounds.reserve(parts.size());
    for (const auto& part : parts) bounds.push_back(part->run.min_key());
    damaged_ = damaged;
    // What is damaged is told under the lock.
    if (!damaged && parts.size() == 1 && parts[0]->run.mapping() != nullptr) {
      first_run_ = parts[0]->run.view();
      first_run_mapping_ = parts[0]->run.mapping();
      // Relaxed: no reader knows the index yet.
      unchanged_.store(true, std::memory_order_relaxed);
    }
    SwapRow(&parts, &bounds);
    std::vector<IndexEntry> batch;
    bool has_room = false;
    while (true) {
      {
        std::lock_guard lock(lock_);
        // The room that Prepare promised in noted_ has to be here then.
        if (noted_.empty() && (!promised_ || has_room)) {
          // Release: pairs with the acquire of Prepare.
          state_.store(State::kInstalled, std::memory_order_release);
          FreeNoted();
          return Status::Ok();
        }
        // A copy, for the same reason.
        batch = noted_;
        noted_.clear();
      }
      for (const IndexEntry& entry : batch) {
        ENGINE_RACE_RETURN_IF_ERROR(MakeRoom());
        Add(entry.key, entry.ref);
      }
      ENGINE_RACE_RETURN_IF_ERROR(MakeRoom());
      has_room = true;
    }
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

Status BucketIndex::Prepare() {
  // Acquire: pairs with the release of Install, whose row is used below.
  if (state_.load(std::memory_order_acquire) != State::kInstalled) {
    std::lock_guard lock(lock_);
    // Relaxed: the lock orders it. Install may have come in between.
    if (state_.load(std::memory_order_relaxed) != State::kInstalled) {
      promised_ = true;
      return ReserveNoted();
    }
  }
  return MakeRoom();
}

void BucketIndex::FreeNoted() noexcept {
  CountBytes(0, noted_.capacity() * sizeof(IndexEntry));
  // An assignment would keep the capacity.
  std::vector<IndexEntry>().swap(noted_);
}

Status BucketIndex::ReserveNoted() {
  const size_t capacity = noted_.capacity();
  if (noted_.size() < capacity) return Status::Ok();
  try {
    noted_.reserve(std::max<size_t>(64, noted_.size() * 2));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  CountBytes(noted_.capacity() * sizeof(IndexEntry), capacity * sizeof(IndexEntry));
  return Status::Ok();
}

void BucketIndex::OnAppend(const KeyRecord& record) noexcept {
  const ValueRef ref(record.slot, record.value_sum, record.tombstone);
  {
    std::lock_guard lock(lock_);
    // Relaxed: the lock orders it.
    if (state_.load(std::memory_order_relaxed) != State::kInstalled) {
      noted_.push_back({record.key, ref});
      return;
    }
  }
  Add(record.key, ref);
}

void BucketIndex::Add(uint64_t key, ValueRef ref) noexcept {
  const size_t index = PartOf(key);
  Part& part = *parts_[index];
  std::lock_guard lock(lock_);
  if (part.delta.capacity() == 0) {
    part.delta = std::move(spare_);
    CountBytes(part.delta.memory_bytes(), 0);
  }
  // Relaxed: only this thread changes it. Seq_cst: pairs with IsUnchanged; before the look at the
  // epoch, before the record is acknowledged, and long before the run's memory may be given back.
  if (unchanged_.load(std::memory_order_relaxed)) {
    unchanged_.store(false, std::memory_order_seq_cst);
  }
  ViewRegistry::WriteStamp stamp;
  if (pinned_ != nullptr) stamp = pinned_->views().StampWrite();
  part.delta.Put(key, ref, stamp.epoch, stamp.watched);
  if (part.delta.full()) full_part_ = static_cast<uint32_t>(index);
}

Status BucketIndex::MakeRoom() {
  if (parts_.empty()) [[unlikely]] {
    try {
      Row parts;
      parts.push_back(std::make_unique<Part>());
      std::vector<uint64_t> bounds = {0};
      SwapRow(&parts, &bounds);
    } catch (const std::bad_alloc&) {
      return NoMemory();
    }
  }
  if (spare_.capacity() == 0) ENGINE_RACE_RETURN_IF_ERROR(Delta::Create(kFirstDelta, &spare_));
  if (full_part_ == kNoPart) return Status::Ok();
  if (DropUnseen(full_part_)) {
    full_part_ = kNoPart;
    return Status::Ok();
  }
  const Part& part = *parts_[full_part_];
  const uint32_t limit = DeltaLimit(part.run.count());
  ENGINE_RACE_RETURN_IF_ERROR(part.delta.capacity() < limit ? GrowDelta(full_part_)
                                                            : Merge(full_part_));
  full_part_ = kNoPart;
  return Status::Ok();
}

// Drops what the delta has superseded and no live view shows; true when that has made room enough
// to have paid. Short views that come and go beside a hot key cost no merge then.
bool BucketIndex::DropUnseen(size_t index) {
  Delta& delta = parts_[index]->delta;
  if (delta.superseded_count() < delta.capacity() / kDroppedFraction || pinned_ == nullptr) {
    return false;
  }
  const LiveEpochs live = pinned_->views().Live();
  std::lock_guard lock(lock_);
  delta.DropUnseen(live);
  return delta.count() <= delta.capacity() - delta.capacity() / kDroppedFraction;
}

Status BucketIndex::GrowDelta(size_t index) {
  Part& part = *parts_[index];
  Delta larger;
  ENGINE_RACE_RETURN_IF_ERROR(Delta::Create(
      std::min(part.delta.capacity() * kDeltaGrowth, DeltaLimit(part.run.count())), &larger));
  {
    std::lock_guard lock(lock_);
    // In here, or a word that is unswizzled meanwhile would lead to its frame again.
    larger.CopyFrom(part.delta);
    std::swap(part.delta, larger);
    CountBytes(part.delta.memory_bytes(), larger.memory_bytes());
  }
  return Status::Ok();
}

Status BucketIndex::Merge(size_t index) {
  std::shared_ptr<const History> history;
  {
    std::shared_lock lock(lock_);
    history = parts_[index]->history;
  }
  LiveEpochs live;
  if (pinned_ != nullptr) live = pinned_->views().Live();
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(
      MergePart(*parts_[index], history, live, frames_, damaged_, split_keys_, &replacement));
  bool keeps_history = false;
  for (const auto& part : replacement.parts) keeps_history |= part->history != nullptr;
  try {
    ENGINE_RACE_RETURN_IF_ERROR(Replace(index, std::move(replacement)));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  if (keeps_history) {
    pinned_->Add(&pinned_link_);
    // Who went before that has swept nothing here.
    const LiveEpochs now = pinned_->views().Live();
    if (now.oldest() != live.oldest()) SweepHistory(now);
  }
  return Status::Ok();
}

Status BucketIndex::Replace(size_t index, PartReplacement replacement) {
  Row& fresh = replacement.parts;
  const size_t kept = replacement.keeps_old_run ? 1 : 0;
  if (fresh.size() + kept == 0 && parts_.size() == 1) {
    fresh.push_back(std::make_unique<Part>());
    replacement.first_keys.push_back(0);
  }
  const auto at = static_cast<ptrdiff_t>(index);
  std::vector<uint64_t> bounds(bounds_.begin(), bounds_.begin() + at);
  if (kept != 0) bounds.push_back(bounds_[index]);
  for (size_t i = 0; i < fresh.size(); ++i) {
    bounds.push_back(i + kept == 0 ? bounds_[index] : replacement.first_keys[i]);
  }
  bounds.insert(bounds.end(), bounds_.begin() + at + 1, bounds_.end());
  size_t history_bytes = 0;
  uint64_t fresh_bytes = 0;
  for (const auto& part : fresh) {
    history_bytes += part->history_bytes();
    fresh_bytes += part->memory_bytes() - part->history_bytes();
  }
  Row row;
  row.reserve(bounds.size());
  // Here too, so that there is seldom anything left to be done under the lock.
  replacement.CopyHotWordsAgain(frames_);
  // What is replaced is freed after the lock is.
  Delta merged;
  std::unique_ptr<Part> replaced;

  std::lock_guard lock(lock_);
  replacement.CopyHotWordsAgain(frames_);
  size_t replaced_bytes = 0;
  if (kept != 0) {
    std::swap(parts_[index]->delta, merged);
  } else {
    replaced = std::move(parts_[index]);
    replaced_bytes = replaced->history_bytes();
  }
  std::move(parts_.begin(), parts_.begin() + at + static_cast<ptrdiff_t>(kept),
            std::back_inserter(row));
  std::move(fresh.begin(), fresh.end(), std::back_inserter(row));
  std::move(parts_.begin() + at + 1, parts_.end(), std::back_inserter(row));
  parts_.swap(row);
  bounds_.swap(bounds);
  ++row_version_;
  if (pinned_ != nullptr) pinned_->CountBytes(history_bytes, replaced_bytes);
  uint64_t gone_bytes = merged.memory_bytes();
  if (replaced != nullptr) gone_bytes += replaced->memory_bytes() - replaced_bytes;
  // Of the old row nothing is left but the room for its pointers.
  CountBytes(fresh_bytes + RowBytes({}, bounds_) + parts_.capacity() * sizeof(parts_[0]),
             gone_bytes + RowBytes({}, bounds) + row.capacity() * sizeof(row[0]));
  return Status::Ok();
}

bool BucketIndex::SweepHistory(const LiveEpochs& live) noexcept {
  while (true) {
    uint32_t version = 0;
    bool is_left = false;
    for (size_t i = 0;; ++i) {
      std::shared_ptr<const History> history;
      {
        std::shared_lock lock(lock_);
        if (i == 0) version = row_version_;
        while (i < parts_.size() && parts_[i]->history == nullptr) ++i;
        if (i >= parts_.size()) {
          // A merge may have moved parts past this walk.
          if (version == row_version_) return is_left;
          break;
        }
        history = parts_[i]->history;
      }
      is_left |= !SweepPart(i, std::move(history), live);
    }
  }
}

// Exchanges the history of one part for what is left of it, unless a merge or another sweep came
// first: then what they left is looked at. True when nothing is left.
bool BucketIndex::SweepPart(size_t index, std::shared_ptr<const History> history,
                            const LiveEpochs& live) noexcept {
  while (history != nullptr && (live.empty() || history->WorthSweeping(live))) {
    std::shared_ptr<const History> swept;
    try {
      swept = History::Sweep(history, live);
    } catch (const std::bad_alloc&) {
      // It stays until the next sweep.
      return false;
    }
    if (swept == history) return false;
    std::lock_guard lock(lock_);
    if (index >= parts_.size()) return true;
    Part& part = *parts_[index];
    if (part.history == history) {
      pinned_->CountBytes(swept == nullptr ? 0 : swept->memory_bytes(), part.history_bytes());
      part.history = swept;
      return swept == nullptr;
    }
    history = part.history;
  }
  return history == nullptr;
}

}  // namespace engine_race
