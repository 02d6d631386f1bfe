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

// Between two tries to release slots that views can see.
constexpr auto kReleaseRetryDelay = std::chrono::milliseconds(1);
// How long a write into a full bucket waits: for slots that only views hold, and in all.
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
  return geometry.bucket_capacity_records - geometry.row_records();
}

// *made: the write may succeed now. The bucket has room, or had room that other writers took. Or
// slots were released after the last cleaning began, which another cleaning may have taken. Or
// appends may fill the rest of the bucket now.
Status Reclaimer::MakeRoom(uint32_t number, const WantedRoom& wanted, bool* made) {
  RowMover& mover = log_.mover();
  const uint64_t first_count = log_.RecordCount(number);
  // Another thread may make room meanwhile, or may have made it already.
  *made = !mover.AwaitClaim(number, wanted.record_count);
  if (*made) return Status::Ok();
  BucketUse use;
  uint64_t reuse_count = log_.ReuseCount(number);
  bool cleaned = false;
  bool is_cleaning = false;
  const Status status = Guarded([&] {
    BucketCleaner cleaner(&log_);
    bool synced = false;
    // Each step frees slots. The bound ends the loop in any case.
    for (uint64_t steps = 0;; ++steps) {
      ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
      mover.Release();
      *made = mover.HasRoom(number, wanted.record_count);
      if (*made) return Status::Ok();
      if (cleaned && use.freed_count == 0) {
        // Where slots cannot be released soon, the bucket takes more space than it should.
        *made = mover.LetGrow(number, wanted.record_count);
        if (*made || std::exchange(synced, true)) return Status::Ok();
        // The bucket is full. The cleaner skips groups that other threads are writing. Sync waits
        // for them.
        const Status done = log_.Sync();
        // The staging of some bucket is lost. All others are synced.
        if (!done.ok() && done.code() != Code::kCorruption) return done;
        // While a claim lasts, the tail fills no row whose run was not in the logs when it began. A
        // new claim lets it fill gaps among the runs that were just synced.
        mover.Unclaim(number);
        mover.AwaitClaim(number);
      }
      if (steps > 2 * log_.geometry().rows_per_bucket()) return Status::Ok();
      reuse_count = log_.ReuseCount(number);
      is_cleaning = true;
      ENGINE_RACE_RETURN_IF_ERROR(cleaner.MakeSpace(number, &use));
      is_cleaning = false;
      NoteCleaned(number, options_.reclaim_dead_percent, use);
      cleaned = true;
    }
  });
  mover.Unclaim(number);
  // A bucket that cannot be cleaned grows. Where nothing can be settled, no bucket may.
  if (!status.ok() && status.code() != Code::kFull && !is_cleaning) return status;
  *made = *made || mover.HasRoom(number, wanted.record_count) ||
          mover.LetGrow(number, wanted.record_count);
  if (*made) {
    if (!status.ok()) Report(status);
    return Status::Ok();
  }
  ENGINE_RACE_RETURN_IF_ERROR(status);
  AwaitRelease(number, wanted.record_count);
  *made = mover.HasRoom(number, wanted.record_count) || log_.RecordCount(number) != first_count ||
          log_.ReuseCount(number) != reuse_count || LetFillIfLive(number, wanted, use.live_count);
  return Status::Ok();
}

// Lets appends fill the rest of the bucket. In a bucket with rows these are the gaps that are too
// few in each row to be worth a run. In others it is the last row, which is kept for moved records:
// without it nothing can be moved. A write of at most a row may have it. A larger one could fill
// the bucket with dead records of few keys. It gets the row only if live records leave less than
// three rows: the last one, the tail's, and one of dead records.
bool Reclaimer::LetFillIfLive(uint32_t number, const WantedRoom& wanted, uint64_t live_count) {
  const Geometry& geometry = log_.geometry();
  const uint64_t known_live_count = std::max(live_count, wanted.key_count);
  const bool is_small = wanted.record_count <= geometry.row_records();
  const bool is_full_of_live =
      known_live_count + 3 * geometry.row_records() > geometry.bucket_capacity_records;
  return (log_.HasRows(number) || is_small || is_full_of_live) &&
         log_.mover().LetFill(number, wanted.record_count);
}

// Cleans the buckets of the write, until one of them has more gaps to fill or gives space back to
// the disk. Then cleans those with the most dead records, until one of them gives space back.
Status Reclaimer::FreeOnDisk(const WantedRooms& rooms, bool* freed) {
  std::set<uint32_t> tried;
  for (const auto& [bucket, wanted] : rooms) {
    ENGINE_RACE_RETURN_IF_ERROR(FreeOf(bucket, /*is_own=*/true, freed));
    if (*freed) return Status::Ok();
    tried.insert(bucket);
  }
  uint32_t bucket = 0;
  for (int i = 0; i < kOtherBuckets && dirty_.FindMostDead(tried, &bucket); ++i) {
    // A failure there is not this write's.
    if (FreeOf(bucket, /*is_own=*/false, freed).ok() && *freed) return Status::Ok();
    *freed = false;
    tried.insert(bucket);
  }
  return Status::Ok();
}

// *freed: slots of the bucket may be filled again, or space was given back to the disk.
Status Reclaimer::FreeOf(uint32_t number, bool is_own, bool* freed) {
  RowMover& mover = log_.mover();
  const uint64_t gap_count = mover.GapCount(number);
  const uint64_t given_back_bytes = mover.given_back_bytes();
  mover.AwaitClaim(number);
  BucketUse use;
  const Status cleaned = Guarded([&] {
    BucketCleaner cleaner(&log_);
    return cleaner.MakeSpace(number, &use);
  });
  mover.Unclaim(number);
  if (cleaned.ok()) NoteCleaned(number, options_.reclaim_dead_percent, use);
  // Slots that were given up before are released.
  if (!cleaned.ok() && cleaned.code() != Code::kFull) return cleaned;
  ENGINE_RACE_RETURN_IF_ERROR(mover.Settle());
  mover.Release();
  *freed = is_own && mover.GapCount(number) > gap_count;
  // The write cannot fill gaps of other buckets: it needs their space on the disk.
  if (!*freed) mover.PunchGaps(number);
  *freed = *freed || mover.given_back_bytes() != given_back_bytes;
  return Status::Ok();
}

// Ranges end soon and are waited for. Snapshots may stay: the wait for views is short.
void Reclaimer::AwaitRelease(uint32_t number, uint64_t record_count) {
  RowMover& mover = log_.mover();
  const uint64_t began_ns = MonotonicNs();
  uint64_t held_since_ns = began_ns;
  while (mover.HasWaiting(number) && !mover.HasRoom(number, record_count)) {
    const uint64_t now_ns = MonotonicNs();
    if (mover.IsReleasing(number)) held_since_ns = now_ns;
    if (now_ns - held_since_ns >= kMaxViewWaitNs || now_ns - began_ns >= kMaxReleaseWaitNs) return;
    std::this_thread::sleep_for(kReleaseRetryDelay);
    mover.Release();
  }
}

}  // namespace engine_race
