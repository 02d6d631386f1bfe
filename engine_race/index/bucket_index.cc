#include "engine_race/index/bucket_index.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

#include "engine_race/base/assert.h"
#include "engine_race/log/batch_plan.h"

namespace engine_race {

void BucketIndex::Expect() noexcept {
  // Relaxed: the log's bucket lock, taken by CutBucket, orders it before the first record.
  state_.store(State::kExpecting, std::memory_order_relaxed);
}

void BucketIndex::Forget() {
  PartRow forgotten;
  SwapRow(&forgotten);
  // Without shared_ there are no views, and so there is no history.
  if (shared_ != nullptr) shared_->CountBytes(0, forgotten.history_bytes());
  std::lock_guard lock(lock_);
  FreeNoted();
  growth_.Forget();
  births_.store(0, std::memory_order_relaxed);
  damaged_ = false;
  // Relaxed, here and above: no other thread uses the bucket, or only readers that find it unread.
  state_.store(State::kEmpty, std::memory_order_relaxed);
}

void BucketIndex::EnterEpoch(EpochGuard* guard) const {
  if (shared_ != nullptr) guard->emplace(shared_->epochs());
}

void BucketIndex::SwapRow(PartRow* row) noexcept {
  const std::lock_guard lock(lock_);
  // Before the parts are freed.
  Hide();
  row_.Swap(row);
  if (shared_ != nullptr) shared_->part_bytes().Change(row_.memory_bytes(), row->memory_bytes());
  ForGrowth().CountRuns(row_.run_counts(), row->run_counts());
  if (!row_.empty()) NoteHeld();
}

Status BucketIndex::Install(Row parts, bool damaged, const BucketTail& tail) {
  try {
    {
      std::lock_guard lock(lock_);
      damaged_ = damaged;
      if (damaged) NoteHeld();
      NoteBirths(tail.births);
    }
    PartRow row(std::move(parts));
    SwapRow(&row);
    // The first record of a tail would hide the runs at once.
    if (tail.records.empty()) TryPublish();
    // Records that are noted were appended after those of the tail.
    ENGINE_RACE_RETURN_IF_ERROR(AddAll(tail.records, tail.since));
    std::vector<IndexEntry> batch;
    uint32_t room_count = 0;
    uint32_t promised_count = 0;
    while (true) {
      {
        std::lock_guard lock(lock_);
        // If Prepare promised room in noted_, the next record may come at once, and must find room
        // in its delta.
        promised_count = promised_count_;
        if (noted_.empty() && promised_count <= room_count) {
          // Release: pairs with the acquire of Prepare.
          state_.store(State::kInstalled, std::memory_order_release);
          FreeNoted();
          // The row has the room. A later Install owes it no more.
          promised_count_ = 0;
          return Status::Ok();
        }
        // Copied, not moved: noted_ keeps the room that Prepare promised.
        batch = noted_;
        noted_.clear();
      }
      ENGINE_RACE_RETURN_IF_ERROR(AddAll(batch, tail.since));
      ENGINE_RACE_RETURN_IF_ERROR(growth_.MakeRoom(ForGrowth()));
      if (promised_count > 1) {
        ENGINE_RACE_RETURN_IF_ERROR(growth_.MakeRoomForMany(ForGrowth(), promised_count));
      }
      room_count = promised_count;
    }
  } catch (const std::bad_alloc&) {
    return BucketGrowth::NoMemory();
  }
}

Status BucketIndex::AddAll(std::span<const IndexEntry> entries, const BucketMoment& since) {
  for (const IndexEntry& entry : entries) {
    ENGINE_RACE_RETURN_IF_ERROR(growth_.MakeRoom(ForGrowth()));
    Add(entry.key, entry.ref, /*moved=*/false, since);
  }
  return Status::Ok();
}

void BucketIndex::Admit() noexcept {
  {
    std::lock_guard lock(lock_);
    unread_ = false;
    NoteIfEmpty();
  }
  TryPublish();
}

Status BucketIndex::Prepare() {
  // Acquire: pairs with the release of Install, whose row is used below.
  if (state_.load(std::memory_order_acquire) != State::kInstalled) {
    std::lock_guard lock(lock_);
    // Relaxed: the lock orders it. Install may have ended meanwhile.
    if (state_.load(std::memory_order_relaxed) != State::kInstalled) {
      promised_count_ = std::max(promised_count_, 1U);
      return ReserveNoted(1);
    }
  }
  return growth_.HasRoom(row_) ? Status::Ok() : growth_.MakeRoom(ForGrowth());
}

Status BucketIndex::PrepareMany(uint32_t count, AppendListener::KeyFn key_of) {
  // As in Prepare, all three.
  if (state_.load(std::memory_order_acquire) != State::kInstalled) {
    std::lock_guard lock(lock_);
    if (state_.load(std::memory_order_relaxed) != State::kInstalled) {
      promised_count_ = std::max(promised_count_, count);
      return ReserveNoted(count);
    }
  }
  // One part gets all keys. But a merge may split that of a large batch before.
  if (row_.size() <= 1 && count <= BatchPlan::kMaxUnsortedRecords) {
    return growth_.MakeRoomForMany(ForGrowth(), count);
  }
  std::vector<uint64_t> keys(count);
  for (uint32_t i = 0; i < count; ++i) keys[i] = key_of(i);
  // Those of a large batch are sorted.
  if (!std::is_sorted(keys.begin(), keys.end())) std::sort(keys.begin(), keys.end());
  return growth_.MakeRoomForKeys(ForGrowth(), keys);
}

BucketGrowth::Bucket BucketIndex::ForGrowth() noexcept {
  return {lock_,
          row_,
          frames_,
          shared_,
          &sweep_link_,
          damaged_,
          claimed_.load(std::memory_order_relaxed),
          may_be_paged(),
          births_.load(std::memory_order_relaxed),
          this};
}

void BucketIndex::FreeNoted() noexcept {
  ForGrowth().CountBytes(0, noted_.capacity() * sizeof(IndexEntry));
  // An assignment would keep the capacity.
  std::vector<IndexEntry>().swap(noted_);
}

Status BucketIndex::ReserveNoted(uint32_t count) {
  const size_t capacity = noted_.capacity();
  if (noted_.size() + count <= capacity) return Status::Ok();
  try {
    noted_.reserve(std::max<size_t>(64, noted_.size() * 2 + count));
  } catch (const std::bad_alloc&) {
    return BucketGrowth::NoMemory();
  }
  ForGrowth().CountBytes(noted_.capacity() * sizeof(IndexEntry), capacity * sizeof(IndexEntry));
  return Status::Ok();
}

void BucketIndex::OnAppend(const KeyRecord& record, bool moved,
                           const BucketMoment& before) noexcept {
  const ValueRef ref(record);
  {
    std::lock_guard lock(lock_);
    NoteBirths(before.births + (moved ? 1 : 0));
    // Relaxed: the lock orders it.
    if (state_.load(std::memory_order_relaxed) != State::kInstalled) {
      // Prepare has made room.
      ENGINE_RACE_ASSERT(noted_.size() < noted_.capacity());
      noted_.push_back({record.key, ref});
      return;
    }
  }
  Add(record.key, ref, moved, before);
}

// Adds a record for which MakeRoom has made room. The stamp is taken under this bucket's own lock,
// so that a view always shows the same records of the bucket.
void BucketIndex::Add(uint64_t key, ValueRef ref, bool moved, const BucketMoment& before) noexcept {
  ENGINE_RACE_ASSERT(growth_.HasRoom(row_));
  const size_t index = row_.PartOf(key);
  // TakeFrame may look into blocks.
  EpochGuard guard;
  if (moved) EnterEpoch(&guard);
  const std::lock_guard lock(lock_);
  // Before the load of the version, before the record is acknowledged, and before a merge gives the
  // run's memory back.
  Hide();
  NoteHeld();
  ViewRegistry::WriteStamp stamp;
  if (shared_ != nullptr) stamp = shared_->views().StampWrite();
  ValueRef hot;
  const bool keeps_frame = moved && TakeFrame(key, &hot);
  const size_t more_bytes = growth_.Put(row_, index, key, ref, stamp, before);
  if (keeps_frame) GiveFrame(key, ref, hot);
  if (more_bytes != 0) ForGrowth().CountBytes(more_bytes, 0);
}

Code BucketIndex::CodeOf(bool found, ValueRef ref) const {
  if (found && !ref.none()) return ref.tombstone() ? Code::kNotFound : Code::kOk;
  return damaged_ ? Code::kCorruption : Code::kNotFound;
}

void BucketIndex::PrefetchCell(uint64_t key) const {
  const std::shared_lock lock(lock_);
  CellMap::Position position;
  if (!row_.empty()) row_.part(row_.PartOf(key)).run.view().PrefetchCell(key, &position);
}

void BucketIndex::PrefetchWindow(uint64_t key) const {
  const std::shared_lock lock(lock_);
  if (row_.empty()) return;
  const RunView& run = row_.part(row_.PartOf(key)).run.view();
  CellMap::Position position;
  uint32_t rank = 0;
  if (run.PrefetchCell(key, &position)) run.PrefetchWindow(position, &rank);
}

Code BucketIndex::Find(uint64_t key, ValueRef* ref, BlockLookup* lookup, uint64_t version) const {
  EpochGuard guard;
  EnterEpoch(&guard);
  Code code = Code::kOk;
  if (!FindPublished(key, ref, lookup) || !ref->leads_to_slot()) {
    code = FindUnderLock(
        key, version, [this](const RefWord& word) { return frames_.SlotOf(word); }, lookup, ref);
  }
  if (guard && lookup != nullptr && lookup->TakeHit()) guard->CountBlockHit();
  return code;
}

Code BucketIndex::FindHot(uint64_t key, ValueRef* ref, BlockLookup* lookup, const RunWindow& window,
                          uint64_t version) const {
  if (FindPublished(key, ref, lookup, window)) return Code::kOk;
  return FindUnderLock(
      key, version, [](const RefWord& word) { return word.Load(); }, lookup, ref);
}

template <typename ReadFn>
Code BucketIndex::FindUnderLock(uint64_t key, uint64_t version, const ReadFn& read,
                                BlockLookup* lookup, ValueRef* ref) const {
  const std::shared_lock lock(lock_);
  if (unread_) return Code::kIOError;
  const bool found = row_.Find(key, version, Access(lookup), read, ref);
  return CodeOf(found, *ref, lookup);
}

// Calls walk(row, walk) under the lock. kOutOfMemory, and all that a walk over keys answers.
template <typename WalkFn>
Code BucketIndex::WalkKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                           RunSlices* slices, const WalkFn& walk) const {
  bool wants_merge = false;
  bool has_walked = false;
  {
    EpochGuard guard;
    EnterEpoch(&guard);
    const std::shared_lock lock(lock_);
    if (unread_) return Code::kIOError;
    if (damaged_) return Code::kCorruption;
    try {
      const PartRow::Walk over = {first_key, last_key,    version, frames_, Access(nullptr).frames,
                                  slices,    &wants_merge};
      has_walked = walk(over);
    } catch (const std::bad_alloc&) {
      return Code::kOutOfMemory;
    }
  }
  if (wants_merge && paging() != nullptr) [[unlikely]] {
    paging()->Ask(sweep_link_.bucket, Paging::Work::kMerge);
  }
  return has_walked ? Code::kOk : Code::kIncomplete;
}

Code BucketIndex::Collect(uint64_t first_key, uint64_t last_key, size_t max_entries,
                          std::vector<IndexEntry>* entries, bool* complete, uint64_t version,
                          RunSlices* slices) const {
  *complete = true;
  return WalkKeys(first_key, last_key, version, slices, [&](const PartRow::Walk& walk) {
    return row_.Collect(walk, max_entries, entries, complete);
  });
}

Code BucketIndex::FirstKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                            std::span<uint64_t> keys, size_t* count, RunSlices* slices) const {
  *count = 0;
  return WalkKeys(first_key, last_key, version, slices,
                  [&](const PartRow::Walk& walk) { return row_.FirstKeys(walk, keys, count); });
}

Code BucketIndex::LastKeys(uint64_t first_key, uint64_t last_key, uint64_t version,
                           std::span<uint64_t> keys, size_t* count, RunSlices* slices) const {
  *count = 0;
  return WalkKeys(first_key, last_key, version, slices,
                  [&](const PartRow::Walk& walk) { return row_.LastKeys(walk, keys, count); });
}

uint64_t BucketIndex::EstimateCount(uint64_t first_key, uint64_t last_key) const {
  const std::shared_lock lock(lock_);
  return row_.EstimateCount(first_key, last_key);
}

uint64_t BucketIndex::memory_bytes() const {
  const std::shared_lock lock(lock_);
  const PublishedRuns* const runs = published_.load(std::memory_order_relaxed);
  // The spare delta is not counted: only the mutator may look at it, and it is small.
  return sizeof(*this) + noted_.capacity() * sizeof(IndexEntry) + row_.memory_bytes() +
         row_.history_bytes() + (runs == nullptr ? 0 : runs->memory_bytes());
}

BucketIndex::SweptPart BucketIndex::SweepPart(uint64_t* key, const LiveVersions& live) noexcept {
  const uint64_t swept_key = *key;
  SweptPart part;
  std::shared_ptr<const History> history;
  {
    std::shared_lock lock(lock_);
    if (row_.empty()) return part;
    const size_t index = row_.PartOf(swept_key);
    history = row_.part(index).history;
    part.has_next = index + 1 < row_.size();
    if (part.has_next) *key = row_.first_key(index + 1);
  }
  if (history == nullptr) return part;
  part.is_left = true;
  if (!history->WorthSweeping(live)) return part;
  part.record_count = history->records().size();
  std::shared_ptr<const History> swept;
  try {
    swept = History::Sweep(history, live);
  } catch (const std::bad_alloc&) {
    // The history stays until the next sweep.
    return part;
  }
  if (swept == history) return part;
  {
    const std::lock_guard lock(lock_);
    if (row_.empty()) {
      // The bucket was forgotten meanwhile.
      part.is_left = false;
      return part;
    }
    Part& now = row_.part(row_.PartOf(swept_key));
    // If the history is another one, a merge has replaced it and kept what is needed. That merge
    // requests a sweep itself.
    part.is_left = now.history == history && swept != nullptr;
    if (now.history != history) return part;
    shared_->CountBytes(swept == nullptr ? 0 : swept->memory_bytes(), history->memory_bytes());
    now.history = std::move(swept);
    if (now.history == nullptr) NoteIfEmpty();
  }
  if (!part.is_left) TryPublish();
  return part;
}

}  // namespace engine_race
