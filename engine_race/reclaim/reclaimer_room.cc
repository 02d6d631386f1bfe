// The calls of Reclaimer for writers that found no space.

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "engine_race/base/clock.h"
#include "engine_race/base/guarded.h"
#include "engine_race/reclaim/reclaimer.h"

namespace engine_race {
namespace {

// Between two tries to release cells that views can see.
constexpr auto kReleaseRetryDelay = std::chrono::milliseconds(1);
// How long a write into a full region waits: for cells that views may see, and for cells that are
// being released.
constexpr uint64_t kMaxViewWaitNs = uint64_t{200} * 1000 * 1000;
constexpr uint64_t kMaxReleaseWaitNs = uint64_t{10} * 1000 * 1000 * 1000;
// The buckets besides its own in which a write to a full disk looks for dead records.
constexpr int kOtherBuckets = 8;

}  // namespace

bool Reclaimer::HasRoom(const WantedRooms& rooms) const {
  return std::all_of(rooms.begin(), rooms.end(), [this](const auto& each) {
    return log_.mover().HasRoom(each.first, each.second.record_count);
  });
}

Status Reclaimer::MakeSpace(const WantedRooms& rooms, bool disk_is_full, bool* freed) {
  *freed = true;
  for (const auto& [bucket, wanted] : rooms) {
    // A damaged bucket cannot be claimed, and the write fails in any case.
    *freed = !log_.BucketDamaged(bucket);
    if (!*freed) return Status::Ok();
    // Cleanings beside other writers would be tried in vain.
    *freed = wanted.record_count <= MostRoom(bucket);
    if (!*freed) return Status::Ok();
    if (disk_is_full || log_.mover().HasRoom(bucket, wanted.record_count)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(MakeRoom(bucket, wanted, freed));
    if (!*freed) return Status::Ok();
  }
  return disk_is_full ? FreeOnDisk(rooms, freed) : Status::Ok();
}

// No cleaning makes room for more records than this: the newest ones keep their row.
uint64_t Reclaimer::MostRoom(uint32_t number) const {
  const Geometry& geometry = log_.geometry();
  if (!log_.HasRows(number)) return geometry.bucket_capacity_records;
  const uint64_t in_tail = log_.RecordCount(number) % geometry.row_records();
  return geometry.bucket_capacity_records - (in_tail == 0 ? geometry.row_records() : in_tail);
}

// *made: the write may succeed now. The region has room, or had room that other writers took. Or a
// row was released after the last cleaning began. Or appends may fill the last row now.
Status Reclaimer::MakeRoom(uint32_t number, const WantedRoom& wanted, bool* made) {
  RowMover& mover = log_.mover();
  const uint64_t first_count = log_.RecordCount(number);
  Claim(number);
  BucketUse use;
  uint64_t free_row_count = 0;
  bool cleaned = false;
  const Status status = Guarded([&] {
    BucketCleaner cleaner(&log_);
    bool synced = false;
    // Each step frees a row or fills one. The bound ends the loop in any case.
    for (uint64_t steps = 0;; ++steps) {
      ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
      mover.Release();
      // Another thread may have made room while this one waited.
      *made = mover.HasRoom(number, wanted.record_count);
      if (*made) return Status::Ok();
      if (cleaned && use.freed_count == 0) {
        // The cleaner skips groups that other threads are writing. Sync waits for them.
        if (std::exchange(synced, true)) return Status::Ok();
        const Status done = log_.Sync();
        // The staging of some bucket is lost. All others are synced.
        if (!done.ok() && done.code() != Code::kCorruption) return done;
      }
      if (steps > 2 * log_.geometry().rows_per_bucket()) return Status::Ok();
      free_row_count = mover.FreeRowCount(number);
      ENGINE_RACE_RETURN_IF_ERROR(cleaner.MakeSpace(number, &use));
      cleaned = true;
    }
  });
  mover.Unclaim(number);
  if (cleaned) NoteCleaned(number, options_.reclaim_dead_percent, use);
  ENGINE_RACE_RETURN_IF_ERROR(status);
  if (*made) return Status::Ok();
  AwaitRelease(number, wanted.record_count);
  *made = mover.HasRoom(number, wanted.record_count) || log_.RecordCount(number) != first_count ||
          mover.FreeRowCount(number) > free_row_count ||
          LetFillIfLive(number, wanted, use.live_count);
  return Status::Ok();
}

// Lets appends take the last row, which is kept for moved records: without it nothing can be moved.
// A write of at most a row may have it. A larger one could fill the region with dead records of few
// keys. It gets the row only if live records leave less than three rows. Three rows cannot be used
// in any case: the last one, the tail's, and one of dead records that are spread over many rows.
bool Reclaimer::LetFillIfLive(uint32_t number, const WantedRoom& wanted, uint64_t live_count) {
  const Geometry& geometry = log_.geometry();
  const uint64_t known_live_count = std::max(live_count, wanted.key_count);
  const bool is_small = wanted.record_count <= geometry.row_records();
  const bool is_full_of_live =
      known_live_count + 3 * geometry.row_records() > geometry.bucket_capacity_records;
  return (is_small || is_full_of_live) && log_.mover().LetFill(number, wanted.record_count);
}

// Cleans the buckets of the write, and then those with the most dead records, until one of them
// gives some space back to the disk.
Status Reclaimer::FreeOnDisk(const WantedRooms& rooms, bool* freed) {
  std::set<uint32_t> tried;
  for (const auto& [bucket, wanted] : rooms) {
    ENGINE_RACE_RETURN_IF_ERROR(FreeOf(bucket, freed));
    if (*freed) return Status::Ok();
    tried.insert(bucket);
  }
  uint32_t bucket = 0;
  for (int i = 0; i < kOtherBuckets && dirty_.FindMostDead(tried, &bucket); ++i) {
    // A failure there is not this write's.
    if (FreeOf(bucket, freed).ok() && *freed) return Status::Ok();
    *freed = false;
    tried.insert(bucket);
  }
  return Status::Ok();
}

// *freed: some space was given back to the disk.
Status Reclaimer::FreeOf(uint32_t number, bool* freed) {
  RowMover& mover = log_.mover();
  const uint64_t released_bytes = mover.released_bytes();
  Claim(number);
  BucketUse use;
  const Status cleaned = Guarded([&] {
    BucketCleaner cleaner(&log_);
    return cleaner.MakeSpace(number, &use);
  });
  mover.Unclaim(number);
  if (cleaned.ok()) NoteCleaned(number, options_.reclaim_dead_percent, use);
  // Records cannot be moved where the disk is full. Cells that were given up before are released.
  if (!cleaned.ok() && cleaned.code() != Code::kFull) return cleaned;
  ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  mover.Release();
  *freed = mover.released_bytes() != released_bytes;
  return Status::Ok();
}

// Ranges end soon and are waited for. Snapshots may stay: the wait for views is short.
void Reclaimer::AwaitRelease(uint32_t number, uint64_t record_count) {
  RowMover& mover = log_.mover();
  const uint64_t began_ns = MonotonicNs();
  while (mover.HasWaiting(number) && !mover.HasRoom(number, record_count)) {
    const uint64_t limit_ns = mover.IsReleasing(number) ? kMaxReleaseWaitNs : kMaxViewWaitNs;
    if (MonotonicNs() - began_ns >= limit_ns) return;
    std::this_thread::sleep_for(kReleaseRetryDelay);
    mover.Release();
  }
}

}  // namespace engine_race
