#include "engine_race/reclaim/dirty_buckets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "engine_race/base/guarded.h"

namespace engine_race {
namespace {

// One key in 64 is watched.
constexpr uint64_t kWatchedShare = 64;
// The entries, in a piece, that are compared with each other.
constexpr size_t kComparedEntries = 256;
// With fewer repeats of watched keys the estimate is too rough.
constexpr uint64_t kMinRepeats = 4;
// With so few watched keys more their number says nothing: e^-5 is the chance that there is none.
constexpr double kSpareWatched = 5;
// The fewest appends between two cleanings of a bucket, in rows: each cleaning reads all entries.
constexpr uint64_t kMinRows = 1;
// A bucket is sparse if it has more slots than its limit by over this share, and by over a row.
constexpr uint64_t kSparseShare = 12;
// Many buckets wait when more than one in 32 does.
constexpr uint32_t kMaxWaitingShare = 32;

uint64_t HashOfKey(uint64_t key) {
  key = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
  return (key ^ key >> 29) * 0xbf58476d1ce4e5b9;
}

}  // namespace

DirtyBuckets::DirtyBuckets(const Options& options, BucketLog* log, std::function<void()> wake)
    : dead_percent_(std::min(options.reclaim_dead_percent, 99U)),
      limits_rows_(options.reclaim != Reclaim::kOff),
      log_(*log),
      wake_(std::move(wake)),
      buckets_(std::make_unique<State[]>(log->geometry().bucket_count)),
      max_waiting_count_(log->geometry().bucket_count / kMaxWaitingShare) {
  const uint64_t min_room = kMinRows * log->geometry().row_records();
  for (uint32_t b = 0; b < log->geometry().bucket_count; ++b) {
    State& bucket = buckets_[b];
    const uint64_t record_count = log->RecordCount(b);
    CountSlots(&bucket, std::min(record_count, log->SlotEnd(b)));
    if (record_count == 0) continue;
    bucket.found_count = record_count;
    bucket.kept_clean_at = log->CleanAt(b);
    // Where slots were used again, records were overwritten before: the bucket waits at its next
    // full group.
    const uint64_t room = log->SlotEnd(b) * dead_percent_ / 100;
    const uint64_t unknown = record_count + (log->HasRows(b) ? 0 : std::max(room, min_room));
    // What was kept may be of an opening that allowed more dead records.
    const uint64_t most_room =
        SlotLimit(log->SlotEnd(b), dead_percent_, log->geometry()) - log->SlotEnd(b);
    const uint64_t latest = record_count + std::max(most_room, min_room);
    bucket.clean_at = bucket.kept_clean_at == 0 ? unknown : std::min(bucket.kept_clean_at, latest);
  }
}

void DirtyBuckets::QueueDue() {
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) {
    State& bucket = buckets_[b];
    const std::lock_guard lock(bucket.mutex);
    // Without a kept count nothing says that a bucket is due.
    if (bucket.kept_clean_at == 0 || log_.RecordCount(b) < bucket.clean_at) continue;
    bucket.queued = Enqueue(b, /*urgent=*/false);
  }
}

void DirtyBuckets::Keep() noexcept {
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) {
    State& bucket = buckets_[b];
    const std::lock_guard lock(bucket.mutex);
    const uint64_t record_count = log_.RecordCount(b);
    const bool is_new = record_count != bucket.found_count || bucket.was_cleaned;
    if (!is_new || log_.BucketDamaged(b)) continue;
    uint64_t clean_at = bucket.clean_at;
    // Too few records were replaced. Later openings do not know the keys of this one, so they
    // cannot count when its records are replaced.
    if (clean_at == ~uint64_t{0}) {
      const uint64_t dead_count = std::min(DeadCount(bucket, record_count), record_count);
      const uint64_t limit = SlotLimit(record_count - dead_count, dead_percent_, log_.geometry());
      const uint64_t room = limit - std::min(limit, record_count);
      clean_at = record_count + std::max(room, kMinRows * log_.geometry().row_records());
    }
    if (bucket.queued || log_.mover().HasWaiting(b)) clean_at = record_count;
    // The others would fail for the same reason.
    if (!KeepCleanAt(b, clean_at)) return;
  }
}

// Under the lock of the bucket's state. False: it is not kept.
bool DirtyBuckets::KeepCleanAt(uint32_t number, uint64_t clean_at) noexcept {
  State& bucket = buckets_[number];
  // What could not be kept is not tried again: it is a hint.
  return std::exchange(bucket.kept_clean_at, clean_at) == clean_at ||
         log_.KeepCleanAt(number, clean_at).ok();
}

void DirtyBuckets::CountSlots(State* bucket, uint64_t count) noexcept {
  slot_count_.fetch_add(count - bucket->slot_count, std::memory_order_relaxed);
  bucket->slot_count = count;
}

void DirtyBuckets::OnKeyGroup(uint32_t number, std::span<const format::KeyEntry> entries,
                              uint64_t record_count) noexcept {
  State& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  if (!bucket.was_cleaned) CountSlots(&bucket, bucket.slot_count + entries.size());
  if (bucket.clean_at == ~uint64_t{0}) {
    if (!WasReplaced(&bucket, entries, record_count)) return;
    bucket.clean_at = record_count;
    bucket.seen_keys = {};
  }
  // At once, so that openings that are killed add up, too.
  if (bucket.kept_clean_at == 0) KeepCleanAt(number, bucket.clean_at);
  if (record_count < bucket.clean_at) return;
  const bool urgent = record_count >= bucket.clean_at + kMinRows * log_.geometry().row_records();
  if (bucket.queued && (bucket.urgent || !urgent)) return;
  // Without memory a later group tries again.
  if (!Enqueue(number, urgent)) return;
  bucket.queued = true;
  bucket.urgent = urgent;
  if (urgent) urgent_count_.fetch_add(1, std::memory_order_relaxed);
}

// Counts the replaced records of a piece: at most kComparedEntries entries.
void DirtyBuckets::CountReplaced(State* bucket, std::span<const format::KeyEntry> entries) {
  // An open hash table of numbers of entries, which begin with 1.
  constexpr uint32_t kTableBits = 10;
  static_assert(size_t{1} << kTableBits >= 2 * kComparedEntries);
  std::array<uint16_t, size_t{1} << kTableBits> table{};
  for (size_t i = 0; i < entries.size(); ++i) {
    // Of a record that was synced before the group was full.
    if (entries[i] == format::KeyEntry{}) {
      ++bucket->unknown_count;
      continue;
    }
    if (entries[i].tombstone()) ++bucket->replaced_count;
    const uint64_t hash = HashOfKey(entries[i].key);
    size_t place = hash >> (64 - kTableBits);
    while (table[place] != 0 && entries[table[place] - 1].key != entries[i].key) {
      place = (place + 1) % table.size();
    }
    if (table[place] != 0) {
      // A tombstone was counted already.
      if (!entries[table[place] - 1].tombstone()) ++bucket->replaced_count;
      table[place] = static_cast<uint16_t>(i + 1);
      continue;
    }
    table[place] = static_cast<uint16_t>(i + 1);
    if (hash % kWatchedShare != 0) continue;
    try {
      bucket->repeat_count += !bucket->seen_keys.insert(static_cast<uint32_t>(hash >> 32)).second;
    } catch (...) {
      // Without memory the key is not watched.
    }
  }
}

// Of a bucket that was never cleaned: whether enough of its records were overwritten.
bool DirtyBuckets::WasReplaced(State* bucket, std::span<const format::KeyEntry> entries,
                               uint64_t record_count) {
  for (size_t begin = 0; begin < entries.size(); begin += kComparedEntries) {
    CountReplaced(bucket,
                  entries.subspan(begin, std::min(kComparedEntries, entries.size() - begin)));
  }
  // The bucket was empty when the store was opened: all of its records were compared.
  return DeadCount(*bucket, record_count) * 100 >= record_count * dead_percent_;
}

// Estimates how many records of a bucket were replaced that was empty at the opening.
uint64_t DirtyBuckets::DeadCount(const State& bucket, uint64_t record_count) {
  const uint64_t repeats = bucket.repeat_count < kMinRepeats ? 0 : bucket.repeat_count;
  const uint64_t counted = bucket.replaced_count + repeats * kWatchedShare;
  // The sample may be smaller than its share, so that repeats count too little. But there are
  // hardly more keys than three standard deviations above those that it stands for.
  const auto watched = static_cast<double>(bucket.seen_keys.size());
  const auto max_keys =
      static_cast<uint64_t>(kWatchedShare * (watched + 3 * std::sqrt(watched) + kSpareWatched));
  return std::max(counted, record_count - std::min(record_count, max_keys + bucket.unknown_count));
}

bool DirtyBuckets::Enqueue(uint32_t bucket, bool urgent) {
  {
    const std::lock_guard lock(mutex_);
    try {
      if (urgent) {
        queue_.push_front(bucket);
      } else {
        queue_.push_back(bucket);
      }
    } catch (...) {
      return false;
    }
    waiting_count_.store(queue_.size(), std::memory_order_relaxed);
  }
  wake_();
  return true;
}

bool DirtyBuckets::Take(uint32_t* number) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      *number = queue_.front();
      queue_.pop_front();
      waiting_count_.store(queue_.size(), std::memory_order_relaxed);
    }
    State& bucket = buckets_[*number];
    const std::lock_guard lock(bucket.mutex);
    // An urgent bucket stands in the queue twice.
    if (!std::exchange(bucket.queued, false)) continue;
    if (std::exchange(bucket.urgent, false)) urgent_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
}

bool DirtyBuckets::empty() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty();
}

void DirtyBuckets::PutAside(uint32_t number) noexcept {
  State& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  // A full group of the batch has queued it again.
  if (bucket.queued) return;
  {
    const std::lock_guard aside(mutex_);
    // Without memory a later group queues it.
    bucket.queued = Guarded([&] {
                      aside_.push_back(number);
                      return Status::Ok();
                    }).ok();
  }
  // A writer may have put it aside, while the thread that brings it back sleeps.
  wake_();
}

bool DirtyBuckets::has_aside() const {
  const std::lock_guard lock(mutex_);
  return !aside_.empty();
}

void DirtyBuckets::BringBack() noexcept {
  const std::lock_guard lock(mutex_);
  // Without memory they stay where they are.
  static_cast<void>(Guarded([this] {
    queue_.insert(queue_.end(), aside_.begin(), aside_.end());
    aside_.clear();
    return Status::Ok();
  }));
  waiting_count_.store(queue_.size(), std::memory_order_relaxed);
}

bool DirtyBuckets::NoteCleaned(uint32_t number, uint32_t dead_percent, const BucketUse& use) {
  const uint64_t limit = SlotLimit(use.live_count, dead_percent, log_.geometry());
  // The next cleaning begins before the tail has filled all slots that hold nothing.
  const uint64_t slots = std::max(limit, use.slot_count);
  const uint64_t empty_count = slots - std::min(slots, use.held_count);
  // DecodeCounts takes a kept count that is further ahead than this for one that was reached.
  const uint64_t room = std::min(empty_count / 2, kMaxBucketRecords - 1);
  State& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  CountSlots(&bucket, use.slot_count);
  if (limits_rows_) {
    log_.mover().LimitRows(number, RowLimit(limit, log_.geometry()));
  }
  bucket.use = use;
  bucket.was_cleaned = true;
  bucket.clean_at =
      use.record_count + std::max<uint64_t>(room, kMinRows * log_.geometry().row_records());
  // Until the freed slots are settled, a kill brings them back: the next opening cleans again.
  KeepCleanAt(number, log_.mover().HasWaiting(number) ? use.record_count : bucket.clean_at);
  return use.has_more && use.freed_count != 0;
}

bool DirtyBuckets::FindMostDead(const std::set<uint32_t>& tried, uint32_t* number) const {
  // Few dead records are not worth it.
  const uint64_t least_bytes = log_.geometry().row_bytes() / 8;
  uint64_t most_dead_bytes = least_bytes - 1;
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) {
    if (tried.count(b) != 0 || log_.BucketDamaged(b)) continue;
    uint64_t live_bytes = 0;
    uint64_t dead_bytes = 0;
    if (!BytesOf(b, &live_bytes, &dead_bytes)) dead_bytes = live_bytes;
    if (dead_bytes <= most_dead_bytes) continue;
    most_dead_bytes = dead_bytes;
    *number = b;
  }
  return most_dead_bytes >= least_bytes;
}

bool DirtyBuckets::IsSparse(uint32_t number) const {
  const State& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  const uint64_t limit = SlotLimit(bucket.use.live_count, dead_percent_, log_.geometry());
  const uint64_t spare = std::max<uint64_t>(limit / kSparseShare, log_.geometry().row_records());
  return bucket.was_cleaned && bucket.use.slot_count > limit + spare;
}

bool DirtyBuckets::BytesOf(uint32_t number, uint64_t* live_bytes, uint64_t* dead_bytes) const {
  const State& bucket = buckets_[number];
  const uint64_t slot_bytes = log_.geometry().slot_bytes();
  const uint64_t record_count = log_.RecordCount(number);
  const std::lock_guard lock(bucket.mutex);
  if (!bucket.was_cleaned) {
    *live_bytes = std::min(record_count, log_.SlotEnd(number)) * slot_bytes;
    *dead_bytes = 0;
    return false;
  }
  // Each later append is taken to overwrite a live record.
  const BucketUse& use = bucket.use;
  const uint64_t appended = record_count - std::min(record_count, use.record_count);
  *live_bytes = use.live_count * slot_bytes;
  *dead_bytes = (use.held_count - std::min(use.held_count, use.live_count) + appended) * slot_bytes;
  return true;
}

}  // namespace engine_race
