#include "engine_race/reclaim/reclaimer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/thread_name.h"
#include "engine_race/reclaim/row_choice.h"

namespace engine_race {
namespace {

// Freed slots are settled when they take one 128th of the store, within these bounds.
constexpr uint64_t kSettleShare = 128;
constexpr uint64_t kMinSettleBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxSettleBytes = uint64_t{512} << 20;
// Writers settle, too, when waiting slots take four times as much.
constexpr uint64_t kFarBehindFactor = 4;
// How long freed slots wait for others to be settled with them, and buckets for batches that hold
// them.
constexpr auto kSettleDelay = std::chrono::milliseconds(200);
// How long the buckets that an earlier opening left wait, so that the first read of this one has
// the device. A write that makes a bucket due ends the wait. A close does too, and one of the
// buckets is cleaned even then: short openings add up.
constexpr auto kOpeningDelay = std::chrono::milliseconds(20);
constexpr int kReturnSettles = 2;  // see RowMover::Settle
constexpr uint64_t kMaxReleaseThreads = 16;
constexpr uint64_t kBytesPerReleaseThread = uint64_t{8} << 20;
// How often Compact goes over all buckets of a full disk. Each round makes room for the next one.
// What other threads release counts as well: without a bound it might not end beside writers.
constexpr int kMaxCompactRounds = 8;

}  // namespace

Reclaimer::Reclaimer(const Options& options, BucketLog* log, std::chrono::milliseconds idle_delay)
    : options_(options),
      log_(*log),
      idle_delay_(idle_delay),
      dirty_(options, log, [this] { Wake(); }) {}

Reclaimer::~Reclaimer() { Stop(); }

void Reclaimer::Stop() {
  log_.set_key_group_listener(nullptr);
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    work_.notify_all();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  dirty_.Keep();
}

Status Reclaimer::Start() {
  if (options_.reclaim == Reclaim::kOff) return Status::Ok();
  return Guarded([this] {
    compacted_counts_.resize(log_.geometry().bucket_count);
    dirty_.QueueDue();
    // What an earlier opening left must not end the wait in Run.
    look_again_ = false;
    thread_ = StartThread("er-reclaim", [this] { Run(); });
    log_.set_key_group_listener(&dirty_);
    return Status::Ok();
  });
}

Status Reclaimer::CleanOne(BucketCleaner* cleaner, uint32_t bucket, uint32_t dead_percent,
                           BucketUse* use) {
  *use = {};
  RowMover& mover = log_.mover();
  bool held = false;
  if (!mover.Claim(bucket, &held)) {
    if (held) dirty_.PutAside(bucket);
    return Status::Ok();
  }
  // What waits is no reason to move records: that would add to it.
  Status cleaned =
      Guarded([&] { return cleaner->Clean(bucket, options_.reclaim_dead_percent, use); });
  mover.Unclaim(bucket);
  if (cleaned.ok()) NoteCleaned(bucket, dead_percent, *use);
  return cleaned;
}

// A bucket with more to free comes back after the next Settle.
void Reclaimer::NoteCleaned(uint32_t bucket, uint32_t dead_percent, const BucketUse& use) {
  if (dirty_.NoteCleaned(bucket, dead_percent, use)) dirty_.PutAside(bucket);
  Wake();
}

// The share of dead records that a bucket may have. It is lower while slots wait to be settled or
// released: these take space too. The two rows of a small bucket stay as they are.
uint32_t Reclaimer::DeadPercent() const {
  const uint64_t waiting = (log_.mover().unsettled_bytes() + log_.mover().releasable_bytes()) /
                           log_.geometry().slot_bytes();
  const uint64_t waiting_percent = waiting * 100 / (dirty_.slot_count() + waiting + 1);
  return options_.reclaim_dead_percent - static_cast<uint32_t>(std::min<uint64_t>(
                                             waiting_percent, options_.reclaim_dead_percent / 2));
}

// Tells the thread that buckets or slots may have come to wait.
void Reclaimer::Wake() {
  const std::lock_guard lock(mutex_);
  look_again_ = true;
  work_.notify_one();
}

uint64_t Reclaimer::SettleBytes() const {
  uint64_t slot_count = 0;
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) slot_count += log_.SlotEnd(b);
  return std::clamp(slot_count * log_.geometry().slot_bytes() / kSettleShare, kMinSettleBytes,
                    kMaxSettleBytes);
}

bool Reclaimer::IsFarBehind() const {
  return log_.mover().unsettled_bytes() + log_.mover().releasable_bytes() >
         kFarBehindFactor * SettleBytes();
}

// On a full disk moved records take the reserve until their old rows are released.
bool Reclaimer::MustSettle() const {
  const uint64_t bytes = log_.mover().unsettled_bytes();
  return bytes >= SettleBytes() || (bytes != 0 && log_.reserve().is_given_up());
}

Status Reclaimer::SettleAndRelease() noexcept {
  Status settled = Guarded([this] { return log_.mover().Settle(); });
  Report(settled);
  // Punches delay reads, so this thread punches alone unless reclaim has fallen behind.
  ReleaseAll(wants_help() || IsFarBehind() ? kMaxReleaseThreads : 0);
  return settled;
}

// A punch waits for writes to its file, and on some devices for the device. So many of them at once
// take little longer than one.
void Reclaimer::ReleaseAll(uint64_t max_thread_count) noexcept {
  RowMover& mover = log_.mover();
  const uint64_t wanted_count =
      std::min(max_thread_count, mover.releasable_bytes() / kBytesPerReleaseThread);
  std::vector<std::thread> threads;
  // Without them this thread does it all.
  static_cast<void>(Guarded([&] {
    threads.reserve(wanted_count);
    while (threads.size() < wanted_count) {
      threads.push_back(StartThread("er-release", [&mover] { mover.Release(); }));
    }
    return Status::Ok();
  }));
  mover.Release();
  for (std::thread& thread : threads) thread.join();
}

// Logs the first of several failures in a row.
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
  // Where the store has had so many records, it was compacted while it was idle.
  uint64_t compacted_count = ~uint64_t{0};
  {
    std::unique_lock lock(mutex_);
    work_.wait_for(lock, kOpeningDelay, [this] { return stop_ || look_again_; });
  }
  while (true) {
    uint32_t bucket = 0;
    if (dirty_.Take(&bucket)) {
      const uint64_t began_ns = MonotonicNs();
      BucketUse use;
      Report(CleanOne(&cleaner, bucket, DeadPercent(), &use));
      // After a failure buckets wait for kSettleDelay: they would be cleaned in vain at once.
      if (MustSettle() && SettleAndRelease().ok()) dirty_.BringBack();
      KeepRate(began_ns, use.moved_count * log_.geometry().slot_bytes());
    } else {
      std::unique_lock lock(mutex_);
      look_again_ = false;
      const bool has_waiting = dirty_.has_aside() || log_.mover().unsettled_bytes() != 0 ||
                               log_.mover().unreleased_bytes() != 0 || log_.mover().IsReturning();
      const auto is_wanted = [this] { return stop_ || !dirty_.empty(); };
      if (has_waiting) {
        const bool is_woken = work_.wait_for(lock, kSettleDelay, is_wanted);
        lock.unlock();
        if (!is_woken) static_cast<void>(SettleAndRelease());
        // Another cleaning would find what the last one has freed, not settled.
        if (!is_woken || log_.mover().unsettled_bytes() == 0) dirty_.BringBack();
      } else {
        // It looks at every bucket, so nobody waits for it.
        lock.unlock();
        const uint64_t record_count = log_.RecordCount();
        lock.lock();
        const auto is_woken = [&] { return is_wanted() || look_again_; };
        if (record_count == compacted_count) {
          work_.wait(lock, is_woken);
        } else if (!work_.wait_for(lock, idle_delay_, is_woken)) {
          lock.unlock();
          if (CompactIdle(record_count)) compacted_count = record_count;
        }
      }
    }
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
}

// Sleeps until the rate allows `moved_bytes` since `began_ns`.
void Reclaimer::KeepRate(uint64_t began_ns, uint64_t moved_bytes) {
  if (options_.reclaim_bytes_per_second == 0) return;
  const double seconds =
      static_cast<double>(moved_bytes) / static_cast<double>(options_.reclaim_bytes_per_second);
  while (static_cast<double>(MonotonicNs() - began_ns) < seconds * 1e9) {
    std::unique_lock lock(mutex_);
    if (work_.wait_for(lock, std::chrono::milliseconds(10), [this] { return stop_; })) return;
  }
}

void Reclaimer::Help() noexcept {
  // Only the reclaimer's thread keeps to a rate.
  if (options_.reclaim_bytes_per_second != 0) return;
  // The thread of the reclaimer settles. Writers do when it is far behind, one by one.
  if (IsFarBehind()) {
    const std::lock_guard lock(settle_mutex_);
    if (IsFarBehind()) static_cast<void>(SettleAndRelease());
  }
  Report(Guarded([&] {
    uint32_t bucket = 0;
    if (!dirty_.Take(&bucket)) return Status::Ok();
    std::unique_ptr<BucketCleaner> cleaner = TakeHelper();
    BucketUse use;
    Status cleaned = CleanOne(cleaner.get(), bucket, DeadPercent(), &use);
    const std::lock_guard lock(helpers_mutex_);
    helpers_.push_back(std::move(cleaner));
    return cleaned;
  }));
}

std::unique_ptr<BucketCleaner> Reclaimer::TakeHelper() {
  {
    const std::lock_guard lock(helpers_mutex_);
    if (!helpers_.empty()) {
      std::unique_ptr<BucketCleaner> cleaner = std::move(helpers_.back());
      helpers_.pop_back();
      return cleaner;
    }
  }
  return std::make_unique<BucketCleaner>(&log_);
}

Status Reclaimer::Compact(const ProgressFn& on_progress) {
  const RowMover& mover = log_.mover();
  for (int round = 1;; ++round) {
    const uint64_t given_back_bytes = mover.given_back_bytes();
    const uint64_t moved_bytes = mover.moved_bytes();
    // A cleaner skips records that are not in the logs. On a full disk some are synced only once
    // others have left room.
    const Status synced = log_.Sync();
    if (!synced.ok() && synced.code() != Code::kFull) return synced;
    const auto claim = [this](uint32_t bucket) {
      log_.mover().AwaitClaim(bucket);
      return true;
    };
    ENGINE_RACE_RETURN_IF_ERROR(CompactSynced(claim, on_progress));
    const bool has_won = mover.gives_space_back() && mover.given_back_bytes() - given_back_bytes >
                                                         mover.moved_bytes() - moved_bytes;
    if (synced.ok() || !has_won || round == kMaxCompactRounds) return synced;
  }
}

// For a store that has had `record_count` records for a while. False if a write or Stop ended it.
// With a limit on the rate it does nothing.
bool Reclaimer::CompactIdle(uint64_t record_count) noexcept {
  if (log_.RecordCount() != record_count) return false;
  if (options_.reclaim_bytes_per_second != 0) return true;
  bool is_over = true;
  Report(Guarded([&] {
    std::vector<bool> wanted(compacted_counts_.size());
    for (uint32_t b = 0; b < wanted.size(); ++b) {
      wanted[b] = log_.RecordCount(b) != compacted_counts_[b] && dirty_.IsSparse(b);
    }
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return Status::Ok();
    const auto is_idle = [&](uint64_t, uint64_t) {
      {
        const std::lock_guard lock(mutex_);
        if (stop_) return false;
      }
      return log_.RecordCount() == record_count;
    };
    // A bucket that a batch holds is left alone.
    uint32_t last = 0;
    const auto claim = [&](uint32_t b) {
      if (!wanted[b] || !log_.mover().Claim(b)) return false;
      compacted_counts_[b] = log_.RecordCount(b);
      last = b;
      return true;
    };
    Status done = log_.Sync();
    if (done.ok()) done = CompactSynced(claim, is_idle);
    // After a failure only a later write leads to another try.
    is_over = done.code() != Code::kIncomplete;
    if (is_over) return done;
    compacted_counts_[last] = 0;
    return Status::Ok();
  }));
  return is_over;
}

Status Reclaimer::CompactSynced(FunctionRef<bool(uint32_t bucket)> claim,
                                const ProgressFn& on_progress) {
  RowMover& mover = log_.mover();
  SharedProgress progress(on_progress, log_.RecordCount());
  BucketCleaner cleaner(&log_);
  // A cleaner skips moved rows that are not settled.
  ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  mover.Release();
  std::vector<uint32_t> compacted;
  compacted.reserve(log_.geometry().bucket_count);
  Status done;
  for (uint32_t bucket = 0; bucket < log_.geometry().bucket_count && done.ok(); ++bucket) {
    if (log_.BucketDamaged(bucket) || log_.RecordCount(bucket) == 0 || !claim(bucket)) continue;
    compacted.push_back(bucket);
    done = CompactClaimed(&cleaner, bucket, &progress);
    if (!done.ok() || !MustSettle()) continue;
    done = mover.Settle();
    ReleaseAll(kMaxReleaseThreads);
  }
  // Also of the buckets before a failure, or before the caller has cancelled.
  const Status settled = mover.Settle();
  if (done.ok()) done = settled;
  ReleaseAll(kMaxReleaseThreads);
  // Of what was released last. Cuts and full buckets keep their places.
  for (int i = 0; i < kReturnSettles && done.ok() && mover.IsReturning(); ++i) {
    done = mover.Settle();
  }
  log_.slots().CutFreeEnds(/*exactly=*/true);
  // Of rows that were left alone. A hole costs more than it wins where each takes a few slots.
  const uint32_t least_count = SparseCount(log_.geometry().row_records());
  for (const uint32_t bucket : compacted) {
    mover.PunchGaps(bucket, least_count);
    log_.GiveBackStaging(bucket);
  }
  return done;
}

// Ends the claim. A bucket with few free rows takes several cleanings, each with the rows that the
// last one won. Each joins some rows, or is the last.
Status Reclaimer::CompactClaimed(BucketCleaner* cleaner, uint32_t number,
                                 SharedProgress* progress) {
  RowMover& mover = log_.mover();
  BucketUse use;
  const uint64_t row_count = log_.SlotEnd(number) / log_.geometry().row_records() + 1;
  const Status cleaned = Guarded([&] {
    for (uint64_t steps = 0;; ++steps) {
      ENGINE_RACE_RETURN_IF_ERROR(cleaner->Clean(number, 0, &use, progress));
      // On a full disk records may have moved before there was no room for the rest of their rows.
      const bool is_last =
          !use.has_more || use.freed_count + use.moved_count == 0 || steps > 2 * row_count;
      if (is_last && !log_.reserve().is_given_up()) return Status::Ok();
      ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
      mover.Release();
      // Where a view holds what was given up, moving more would take space and win none.
      const bool is_held = mover.HasWaiting(number) && !mover.IsReleasing(number);
      if (!is_last && !is_held) continue;
      // Others need the space more than this bucket's next records do.
      if (log_.reserve().is_given_up()) mover.PunchGaps(number);
      return Status::Ok();
    }
  });
  mover.Unclaim(number);
  if (!cleaned.ok()) return cleaned;
  NoteCleaned(number, options_.reclaim_dead_percent, use);
  return progress->Add(log_.RecordCount(number));
}

ReclaimStats Reclaimer::Stats() const {
  ReclaimStats stats;
  for (uint32_t b = 0; b < log_.geometry().bucket_count; ++b) {
    uint64_t live_bytes = 0;
    uint64_t dead_bytes = 0;
    dirty_.BytesOf(b, &live_bytes, &dead_bytes);
    stats.live_bytes += live_bytes;
    stats.dead_bytes += dead_bytes;
  }
  stats.read_bytes = log_.mover().read_bytes();
  stats.moved_bytes = log_.mover().moved_bytes();
  stats.released_bytes = log_.mover().released_bytes();
  return stats;
}

}  // namespace engine_race
