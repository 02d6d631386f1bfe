#include "engine_race/index/bucket_index.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <span>
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
  for (const auto& part : no_parts) {
    if (part->history != nullptr) pinned_->CountBytes(0, part->history_bytes());
  }
  std::lock_guard lock(lock_);
  unchanged_.store(false, std::memory_order_relaxed);
  first_run_ = RunView();
  first_run_mapping_.reset();
  FreeNoted();
  spare_ = Delta();
  full_part_ = kNoPart;
  damaged_ = false;
  // Relaxed, here and above: no other thread is there, or only readers that find it unread.
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
    {
      std::lock_guard lock(lock_);
      damaged_ = damaged;
    }
    // Readers learn under the lock that a bucket is damaged or was unread.
    if (!damaged && !unread_ && parts.size() == 1 && parts[0]->run.mapping() != nullptr) {
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

void BucketIndex::Admit() noexcept {
  std::lock_guard lock(lock_);
  unread_ = false;
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
  const uint32_t limit = DeltaLimit(SourceOf(full_part_).record_count());
  ENGINE_RACE_RETURN_IF_ERROR(parts_[full_part_]->delta.capacity() < limit
                                  ? GrowDelta(full_part_, limit)
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

Status BucketIndex::GrowDelta(size_t index, uint32_t limit) {
  Part& part = *parts_[index];
  Delta larger;
  ENGINE_RACE_RETURN_IF_ERROR(
      Delta::Create(std::min(part.delta.capacity() * kDeltaGrowth, limit), &larger));
  {
    std::lock_guard lock(lock_);
    // In here, or a word that is unswizzled meanwhile would lead to its frame again.
    larger.CopyFrom(part.delta);
    std::swap(part.delta, larger);
    CountBytes(part.delta.memory_bytes(), larger.memory_bytes());
  }
  return Status::Ok();
}

MergeSource BucketIndex::SourceOf(size_t index) const {
  // A sweep may exchange the history.
  const std::shared_lock lock(lock_);
  return {parts_[index].get(), parts_[index]->history};
}

// A neighbour with which parts_[index], as `source`, is to be made one part; `index` when there is
// none. Without this, parts that were split because of their history would stay small for ever.
size_t BucketIndex::NeighbourOf(size_t index, const MergeSource& source) const {
  const auto fits = [&](size_t neighbour) {
    const size_t count = SourceOf(neighbour).record_count() + source.record_count();
    return count + source.part->delta.count() <= split_keys_ / 2;
  };
  if (index + 1 < parts_.size() && fits(index + 1)) return index + 1;
  return index > 0 && fits(index - 1) ? index - 1 : index;
}

Status BucketIndex::Merge(size_t index) {
  const MergeSource source = SourceOf(index);
  const size_t neighbour = NeighbourOf(index, source);
  const size_t first = std::min(index, neighbour);
  const size_t count = neighbour == index ? 1 : 2;
  const std::array<MergeSource, 2> sources = {SourceOf(first), SourceOf(first + count - 1)};
  LiveEpochs live;
  if (pinned_ != nullptr) live = pinned_->views().Live();
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(MergeParts(std::span(sources).first(count), live, frames_, damaged_,
                                         split_keys_, &replacement));
  if (pinned_ != nullptr) pinned_->CountMerge(replacement.record_count);
  bool keeps_history = false;
  for (const auto& part : replacement.parts) keeps_history |= part->history != nullptr;
  try {
    ENGINE_RACE_RETURN_IF_ERROR(Replace(first, count, std::move(replacement)));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
  if (keeps_history) {
    pinned_->Add(&pinned_link_);
    // A view that was released before Add asked for no sweep.
    if (pinned_->views().Oldest() != live.oldest()) pinned_->RequestSweep();
  }
  return Status::Ok();
}

Status BucketIndex::Replace(size_t index, size_t count, PartReplacement replacement) {
  Row& fresh = replacement.parts;
  const size_t kept = replacement.keeps_old_run ? 1 : 0;
  if (fresh.size() + kept == 0 && parts_.size() == count) {
    fresh.push_back(std::make_unique<Part>());
    replacement.first_keys.push_back(0);
  }
  const auto at = static_cast<ptrdiff_t>(index);
  const auto end = at + static_cast<ptrdiff_t>(count);
  std::vector<uint64_t> bounds(bounds_.begin(), bounds_.begin() + at);
  if (kept != 0) bounds.push_back(bounds_[index]);
  for (size_t i = 0; i < fresh.size(); ++i) {
    bounds.push_back(i + kept == 0 ? bounds_[index] : replacement.first_keys[i]);
  }
  bounds.insert(bounds.end(), bounds_.begin() + end, bounds_.end());
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
  Delta merged;

  // The replaced parts end in `merged` and `row`, and are freed after the lock is released.
  std::lock_guard lock(lock_);
  replacement.CopyHotWordsAgain(frames_);
  size_t replaced_bytes = 0;
  uint64_t gone_bytes = 0;
  if (kept != 0) {
    std::swap(parts_[index]->delta, merged);
    gone_bytes = merged.memory_bytes();
  } else {
    for (size_t i = index; i < index + count; ++i) {
      replaced_bytes += parts_[i]->history_bytes();
      gone_bytes += parts_[i]->memory_bytes() - parts_[i]->history_bytes();
    }
  }
  std::move(parts_.begin(), parts_.begin() + at + static_cast<ptrdiff_t>(kept),
            std::back_inserter(row));
  std::move(fresh.begin(), fresh.end(), std::back_inserter(row));
  std::move(parts_.begin() + end, parts_.end(), std::back_inserter(row));
  parts_.swap(row);
  bounds_.swap(bounds);
  if (pinned_ != nullptr) pinned_->CountBytes(history_bytes, replaced_bytes);
  // Of the old row only the room for its pointers is left to count.
  CountBytes(fresh_bytes + RowBytes({}, bounds_) + parts_.capacity() * sizeof(parts_[0]),
             gone_bytes + RowBytes({}, bounds) + row.capacity() * sizeof(row[0]));
  return Status::Ok();
}

BucketIndex::SweptPart BucketIndex::SweepPart(uint64_t* key, const LiveEpochs& live) noexcept {
  const uint64_t swept_key = *key;
  SweptPart part;
  std::shared_ptr<const History> history;
  {
    std::shared_lock lock(lock_);
    if (parts_.empty()) return part;
    const size_t index = PartOf(swept_key);
    history = parts_[index]->history;
    part.has_next = index + 1 < parts_.size();
    if (part.has_next) *key = bounds_[index + 1];
  }
  if (history == nullptr) return part;
  part.is_left = true;
  if (!history->WorthSweeping(live)) return part;
  part.record_count = history->records().size();
  std::shared_ptr<const History> swept;
  try {
    swept = History::Sweep(history, live);
  } catch (const std::bad_alloc&) {
    // It stays until the next sweep.
    return part;
  }
  if (swept == history) return part;
  const std::lock_guard lock(lock_);
  if (parts_.empty()) {
    // The bucket was forgotten meanwhile.
    part.is_left = false;
    return part;
  }
  Part& now = *parts_[PartOf(swept_key)];
  // Another history: a merge came first. It has kept what is needed, and asks for a sweep itself.
  part.is_left = now.history == history && swept != nullptr;
  if (now.history != history) return part;
  pinned_->CountBytes(swept == nullptr ? 0 : swept->memory_bytes(), history->memory_bytes());
  now.history = std::move(swept);
  return part;
}

}  // namespace engine_race
