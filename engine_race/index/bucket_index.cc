#include "engine_race/index/bucket_index.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "engine_race/index/lower_bound.h"

namespace engine_race {
namespace {

Status NoMemory() { return Status::OutOfMemory("index: no memory for new records"); }

// How many of the `count` ascending keys are at or below `key`.
size_t UpperRank(const uint64_t* keys, size_t count, uint64_t key) {
  return key == ~uint64_t{0} ? count : LowerBound(keys, count, key + 1);
}

size_t UpperRank(const SortedRun& run, uint64_t key) {
  return key == ~uint64_t{0} ? run.count() : run.Rank(key + 1);
}

// The live records of one part with keys in [first_key, last_key], in order.
class PartCursor {
 public:
  PartCursor(const Part& part, uint64_t first_key, uint64_t last_key)
      : part_(part),
        run_(part.run.Rank(first_key)),
        run_end_(UpperRank(part.run, last_key)),
        delta_(part.delta.Rank(first_key)),
        delta_end_(UpperRank(part.delta.keys(), part.delta.count(), last_key)) {}

  bool Next(IndexEntry* entry) {
    while (delta_ < delta_end_) {
      const uint64_t key = part_.delta.keys()[delta_];
      if (run_ < run_end_ && part_.run.keys()[run_] < key) break;
      if (run_ < run_end_ && part_.run.keys()[run_] == key) ++run_;
      *entry = {key, part_.delta.refs()[delta_++]};
      if (!entry->ref.tombstone()) return true;
    }
    if (run_ == run_end_) return false;
    *entry = {part_.run.keys()[run_], part_.run.refs()[run_]};
    ++run_;
    return true;
  }

 private:
  const Part& part_;
  size_t run_;
  const size_t run_end_;
  size_t delta_;
  const size_t delta_end_;
};

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
  noted_ = {};
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
}

Status BucketIndex::Install(Row parts, bool damaged) {
  try {
    std::vector<uint64_t> bounds;
    bounds.reserve(parts.size());
    for (const auto& part : parts) bounds.push_back(part->run.min_key());
    damaged_ = damaged;
    if (parts.size() == 1 && parts[0]->run.mapping() != nullptr) {
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
          noted_ = {};
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

Code BucketIndex::Find(uint64_t key, ValueRef* ref) const {
  const std::shared_lock lock(lock_);
  const bool found = !parts_.empty() && parts_[PartOf(key)]->Find(key, ref);
  return CodeOf(found, *ref);
}

size_t BucketIndex::PartOf(uint64_t key) const {
  return UpperRank(bounds_.data() + 1, bounds_.size() - 1, key);
}

Code BucketIndex::Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
                          std::vector<IndexEntry>* entries, bool* complete) const {
  *complete = true;
  std::shared_lock lock(lock_);
  if (damaged_) return Code::kCorruption;
  if (parts_.empty() || first_key > last_key) return Code::kOk;
  try {
    const size_t end = PartOf(last_key);
    for (size_t i = PartOf(first_key); i <= end; ++i) {
      PartCursor cursor(*parts_[i], first_key, last_key);
      IndexEntry entry;
      while (cursor.Next(&entry)) {
        if (entries->size() >= max_entries) {
          *complete = false;
          return Code::kOk;
        }
        entries->push_back(entry);
      }
    }
  } catch (const std::bad_alloc&) {
    return Code::kOutOfMemory;
  }
  return Code::kOk;
}

uint64_t BucketIndex::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  std::shared_lock lock(lock_);
  if (parts_.empty() || first_key > last_key) return 0;
  uint64_t count = 0;
  const size_t end = PartOf(last_key);
  for (size_t i = PartOf(first_key); i <= end; ++i) {
    const Part& part = *parts_[i];
    count += UpperRank(part.run, last_key) - part.run.Rank(first_key);
    count +=
        UpperRank(part.delta.keys(), part.delta.count(), last_key) - part.delta.Rank(first_key);
  }
  return count;
}

uint64_t BucketIndex::memory_bytes() const {
  std::shared_lock lock(lock_);
  // Not spare_: it is the mutator's own, and small.
  uint64_t bytes = sizeof(*this) + noted_.capacity() * sizeof(IndexEntry) +
                   parts_.capacity() * sizeof(parts_[0]) + bounds_.capacity() * sizeof(uint64_t);
  for (const auto& part : parts_) bytes += part->memory_bytes();
  return bytes;
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

Status BucketIndex::ReserveNoted() {
  if (noted_.size() < noted_.capacity()) return Status::Ok();
  try {
    noted_.reserve(std::max<size_t>(64, noted_.size() * 2));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
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
  if (part.delta.capacity() == 0) part.delta = std::move(spare_);
  // Release: pairs with the acquire of FindQuickly. Before the record is acknowledged, and long
  // before the run's memory may be given back.
  unchanged_.store(false, std::memory_order_release);
  part.delta.Put(key, ref);
  if (part.delta.full()) full_part_ = index;
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
  const Part& part = *parts_[full_part_];
  const uint32_t limit = DeltaLimit(part.run.count());
  ENGINE_RACE_RETURN_IF_ERROR(part.delta.capacity() < limit ? GrowDelta(full_part_)
                                                            : Merge(full_part_));
  full_part_ = kNoPart;
  return Status::Ok();
}

Status BucketIndex::GrowDelta(size_t index) {
  Part& part = *parts_[index];
  Delta larger;
  ENGINE_RACE_RETURN_IF_ERROR(Delta::Create(
      std::min(part.delta.capacity() * kDeltaGrowth, DeltaLimit(part.run.count())), &larger));
  larger.CopyFrom(part.delta);
  {
    std::lock_guard lock(lock_);
    std::swap(part.delta, larger);
  }
  return Status::Ok();
}

Status BucketIndex::Merge(size_t index) {
  PartReplacement replacement;
  ENGINE_RACE_RETURN_IF_ERROR(MergePart(*parts_[index], damaged_, split_keys_, &replacement));
  try {
    return Replace(index, std::move(replacement));
  } catch (const std::bad_alloc&) {
    return NoMemory();
  }
}

Status BucketIndex::Replace(size_t index, PartReplacement replacement) {
  Row& fresh = replacement.parts;
  const size_t kept = replacement.keeps_old_run ? 1 : 0;
  if (fresh.size() + kept == 0 && parts_.size() == 1) fresh.push_back(std::make_unique<Part>());
  const auto at = static_cast<ptrdiff_t>(index);
  std::vector<uint64_t> bounds(bounds_.begin(), bounds_.begin() + at);
  if (kept != 0) bounds.push_back(bounds_[index]);
  for (size_t i = 0; i < fresh.size(); ++i) {
    bounds.push_back(i + kept == 0 ? bounds_[index] : fresh[i]->run.min_key());
  }
  bounds.insert(bounds.end(), bounds_.begin() + at + 1, bounds_.end());
  Row row;
  row.reserve(bounds.size());
  // What is replaced is freed after the lock is.
  Delta merged;
  std::unique_ptr<Part> replaced;

  std::lock_guard lock(lock_);
  if (kept != 0) {
    std::swap(parts_[index]->delta, merged);
  } else {
    replaced = std::move(parts_[index]);
  }
  std::move(parts_.begin(), parts_.begin() + at + static_cast<ptrdiff_t>(kept),
            std::back_inserter(row));
  std::move(fresh.begin(), fresh.end(), std::back_inserter(row));
  std::move(parts_.begin() + at + 1, parts_.end(), std::back_inserter(row));
  parts_.swap(row);
  bounds_.swap(bounds);
  return Status::Ok();
}

}  // namespace engine_race
