#include "engine_race/reclaim/reclaimer.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"

namespace engine_race {
namespace {

// One key in so many is watched.
constexpr uint64_t kWatchedShare = 64;
// So many watched keys must have come again before that says anything.
constexpr uint64_t kMinRepeats = 4;
// Appends between two cleanings of a bucket at least, in rows: each reads all entries of it.
constexpr uint64_t kMinRows = 1;
// Cells are settled when they have this share of what the store holds, within bounds.
constexpr uint64_t kSettleShare = 64;
constexpr uint64_t kMinSettleBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxSettleBytes = uint64_t{512} << 20;
// How long freed cells wait for others to be settled with them.
constexpr auto kSettleDelay = std::chrono::milliseconds(200);
constexpr auto kClaimDelay = std::chrono::milliseconds(1);

uint64_t HashOfKey(uint64_t key) {
  key = (key ^ key >> 32) * 0x9e3779b97f4a7c15;
  return (key ^ key >> 29) * 0xbf58476d1ce4e5b9;
}

}  // namespace

Reclaimer::Reclaimer(const Options& options, BucketLog* log)
    : options_(options),
      log_(*log),
      buckets_(std::make_unique<BucketState[]>(log->geometry().bucket_count)) {
  for (uint32_t b = 0; b < log->geometry().bucket_count; ++b) {
    BucketState& bucket = buckets_[b];
    const uint64_t record_count = log->RecordCount(b);
    bucket.watched_from = record_count;
    // What was written before is not known to have been replaced.
    const uint64_t held = log->SlotEnd(b);
    if (record_count > 0) {
      bucket.clean_at = record_count + std::max<uint64_t>(held * options.reclaim_dead_percent / 100,
                                                          log->geometry().row_records());
    }
  }
}

Reclaimer::~Reclaimer() {
  log_.set_key_group_listener(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status Reclaimer::Start() {
  if (options_.reclaim == Reclaim::kOff) return Status::Ok();
  return Guarded([this] {
    thread_ = StartThread("er-reclaim", [this] { Run(); });
    log_.set_key_group_listener(this);
    return Status::Ok();
  });
}

// Keys are watched by the thread that wrote their group, so writers share nothing for it.
void Reclaimer::OnKeyGroup(uint32_t number, std::span<const format::KeyEntry> entries,
                           uint64_t record_count) noexcept {
  BucketState& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  if (bucket.clean_at == ~uint64_t{0}) {
    for (const format::KeyEntry& entry : entries) {
      const uint64_t hash = HashOfKey(entry.key);
      if (hash % kWatchedShare != 0) continue;
      try {
        bucket.repeat_count += !bucket.seen_keys.insert(static_cast<uint32_t>(hash >> 32)).second;
      } catch (...) {
        // Not watched then.
      }
    }
    const uint64_t dead_count = bucket.repeat_count * kWatchedShare;
    const uint64_t appended = record_count - std::min(record_count, bucket.watched_from);
    if (bucket.repeat_count < kMinRepeats ||
        dead_count * 100 < appended * options_.reclaim_dead_percent) {
      return;
    }
    bucket.clean_at = record_count;
    bucket.seen_keys = {};
  }
  if (record_count < bucket.clean_at) return;
  const uint64_t row_records = log_.geometry().row_records();
  const bool urgent = record_count >= bucket.clean_at + 2 * row_records;
  if (bucket.queued && (bucket.urgent || !urgent)) return;
  const bool was_queued = std::exchange(bucket.queued, true);
  bucket.urgent = urgent;
  if (urgent) urgent_count_.fetch_add(1, std::memory_order_relaxed);
  if (!was_queued || urgent) Enqueue(number, urgent);
}

void Reclaimer::Enqueue(uint32_t bucket, bool urgent) {
  const std::lock_guard lock(mutex_);
  try {
    if (urgent) {
      queue_.push_front(bucket);
    } else {
      queue_.push_back(bucket);
    }
  } catch (...) {
    // A later group tries again.
    return;
  }
  work_.notify_one();
}

// Takes a bucket from the queue. False: there is none.
bool Reclaimer::NextBucket(uint32_t* number) {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (queue_.empty()) return false;
      *number = queue_.front();
      queue_.pop_front();
    }
    BucketState& bucket = buckets_[*number];
    const std::lock_guard lock(bucket.mutex);
    // An urgent bucket stands in the queue twice.
    if (!std::exchange(bucket.queued, false)) continue;
    if (std::exchange(bucket.urgent, false)) urgent_count_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
}

Status Reclaimer::CleanOne(BucketCleaner* cleaner, uint32_t bucket, uint32_t dead_percent) {
  RowMover& mover = log_.mover();
  if (!mover.Claim(bucket)) return Status::Ok();
  BucketUse use;
  Status cleaned = Guarded([&] { return cleaner->Clean(bucket, dead_percent, &use); });
  mover.Unclaim(bucket);
  if (cleaned.ok()) NoteCleaned(bucket, use);
  return cleaned;
}

void Reclaimer::NoteCleaned(uint32_t number, const BucketUse& use) {
  const uint64_t row_records = log_.geometry().row_records();
  const uint64_t limit =
      use.live_count * 100 / (100 - std::min(options_.reclaim_dead_percent, 99U));
  const uint64_t room = limit - std::min(limit, use.held_count);
  BucketState& bucket = buckets_[number];
  const std::lock_guard lock(bucket.mutex);
  bucket.use = use;
  bucket.was_cleaned = true;
  bucket.clean_at = use.record_count + std::max(room, kMinRows * row_records);
  const std::lock_guard queue_lock(mutex_);
  look_again_ = true;
  work_.notify_one();
}

bool Reclaimer::MustSettle() const {
  uint64_t slot_count = 0;
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) slot_count += log_.SlotEnd(b);
  return log_.mover().unsettled_bytes() >=
         std::clamp(slot_count * kValueBytes / kSettleShare, kMinSettleBytes, kMaxSettleBytes);
}

void Reclaimer::SettleAndRelease() noexcept {
  const Status settled = Guarded([this] { return log_.mover().Settle(); });
  Report(settled);
  log_.mover().Release();
}

// A failure that lasts is said once.
void Reclaimer::Report(const Status& status) noexcept {
  if (status.ok()) {
    has_failed_.store(false, std::memory_order_relaxed);
    return;
  }
  if (has_failed_.exchange(true, std::memory_order_relaxed)) return;
  static_cast<void>(Guarded([&] {
    Log(options_.log, LogLevel::kWarning, "reclaim: " + status.ToString());
    return Status::Ok();
  }));
}

void Reclaimer::Run() noexcept {
  log_.placement().EnterDeviceThread();
  BucketCleaner cleaner(&log_);
  rate_began_ns_ = MonotonicNs();
  while (true) {
    uint32_t bucket = 0;
    if (NextBucket(&bucket)) {
      Report(CleanOne(&cleaner, bucket, options_.reclaim_dead_percent));
      if (MustSettle()) SettleAndRelease();
      KeepRate();
    } else {
      std::unique_lock lock(mutex_);
      look_again_ = false;
      const bool has_waiting =
          log_.mover().unsettled_bytes() != 0 || log_.mover().unreleased_bytes() != 0;
      const auto is_wanted = [this] { return stop_ || !queue_.empty(); };
      if (has_waiting) {
        const bool is_woken = work_.wait_for(lock, kSettleDelay, is_wanted);
        lock.unlock();
        if (!is_woken) SettleAndRelease();
      } else {
        work_.wait(lock, [&] { return is_wanted() || look_again_; });
      }
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

// Sleeps until the bytes that were moved are as few as the options want.
void Reclaimer::KeepRate() {
  if (options_.reclaim_bytes_per_second == 0) return;
  while (true) {
    const uint64_t elapsed_ns = MonotonicNs() - rate_began_ns_;
    const double allowed = static_cast<double>(options_.reclaim_bytes_per_second) *
                           static_cast<double>(elapsed_ns) / 1e9;
    if (static_cast<double>(log_.mover().moved_bytes()) <= allowed) return;
    std::unique_lock lock(mutex_);
    if (work_.wait_for(lock, std::chrono::milliseconds(10), [this] { return stop_; })) return;
  }
}

void Reclaimer::Help() noexcept {
  // A limit on the rate is kept by the one thread that knows of it.
  if (options_.reclaim_bytes_per_second != 0) return;
  uint32_t bucket = 0;
  const Status helped = Guarded([&] {
    if (!NextBucket(&bucket)) return Status::Ok();
    std::unique_ptr<BucketCleaner> cleaner;
    {
      const std::lock_guard lock(helpers_mutex_);
      if (!helpers_.empty()) {
        cleaner = std::move(helpers_.back());
        helpers_.pop_back();
      }
    }
    if (cleaner == nullptr) cleaner = std::make_unique<BucketCleaner>(&log_);
    Status cleaned = CleanOne(cleaner.get(), bucket, options_.reclaim_dead_percent);
    const std::lock_guard lock(helpers_mutex_);
    helpers_.push_back(std::move(cleaner));
    return cleaned;
  });
  Report(helped);
  // The thread of the reclaimer settles, unless it is far behind.
  if (log_.mover().unsettled_bytes() > 2 * kMaxSettleBytes) SettleAndRelease();
}

Status Reclaimer::MakeSpace(uint32_t number, bool* freed) {
  RowMover& mover = log_.mover();
  const uint64_t before = mover.released_bytes();
  Claim(number);
  BucketUse use;
  const Status cleaned = Guarded([&] {
    ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
    mover.Release();
    BucketCleaner cleaner(&log_);
    return cleaner.MakeSpace(number, &use);
  });
  mover.Unclaim(number);
  if (cleaned.ok()) NoteCleaned(number, use);
  if (!cleaned.ok() && cleaned.code() != Code::kFull) return cleaned;
  ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  mover.Release();
  *freed = mover.released_bytes() != before || mover.LetFill(number);
  return Status::Ok();
}

// Waits while another thread cleans the bucket.
void Reclaimer::Claim(uint32_t bucket) {
  while (!log_.mover().Claim(bucket)) std::this_thread::sleep_for(kClaimDelay);
}

Status Reclaimer::Compact() {
  RowMover& mover = log_.mover();
  BucketCleaner cleaner(&log_);
  for (uint32_t bucket = 0; bucket < log_.geometry().bucket_count; ++bucket) {
    if (log_.BucketDamaged(bucket) || log_.RecordCount(bucket) == 0) continue;
    Claim(bucket);
    BucketUse use;
    const Status cleaned = Guarded([&] { return cleaner.Clean(bucket, 0, &use); });
    mover.Unclaim(bucket);
    ENGINE_RACE_RETURN_IF_ERROR(cleaned);
    NoteCleaned(bucket, use);
    if (MustSettle()) ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  }
  ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  mover.Release();
  return Status::Ok();
}

void Reclaimer::BucketBytes(uint32_t number, uint64_t* live_bytes, uint64_t* dead_bytes) const {
  const BucketState& bucket = buckets_[number];
  const uint64_t record_count = log_.RecordCount(number);
  const std::lock_guard lock(bucket.mutex);
  if (!bucket.was_cleaned) {
    *live_bytes = std::min(record_count, log_.SlotEnd(number)) * kValueBytes;
    *dead_bytes = 0;
    return;
  }
  // What was appended since then has replaced as much.
  const uint64_t appended = record_count - std::min(record_count, bucket.use.record_count);
  *live_bytes = bucket.use.live_count * kValueBytes;
  *dead_bytes =
      (bucket.use.held_count - std::min(bucket.use.held_count, bucket.use.live_count) + appended) *
      kValueBytes;
}

ReclaimStats Reclaimer::Stats() const {
  ReclaimStats stats;
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) {
    uint64_t live_bytes = 0;
    uint64_t dead_bytes = 0;
    BucketBytes(b, &live_bytes, &dead_bytes);
    stats.live_bytes += live_bytes;
    stats.dead_bytes += dead_bytes;
  }
  stats.read_bytes = log_.mover().read_bytes();
  stats.moved_bytes = log_.mover().moved_bytes();
  stats.released_bytes = log_.mover().released_bytes();
  return stats;
}

}  // namespace engine_race
