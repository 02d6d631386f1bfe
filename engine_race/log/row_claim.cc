// The calls of RowMover that claim a bucket for cleaning, give it back, and hide rows from its
// tail.

#include <algorithm>
#include <mutex>

#include "engine_race/base/assert.h"
#include "engine_race/base/guarded.h"
#include "engine_race/log/row_mover.h"

namespace engine_race {
namespace {

bool MayBeClaimed(const Bucket& bucket) { return !bucket.held && !bucket.claimed; }

void TakeClaim(Bucket* bucket) {
  bucket->claimed = true;
  bucket->claimed_at =
      std::min(bucket->LoggedCount(LaneKind::kValues), bucket->LoggedCount(LaneKind::kKeys));
}

}  // namespace

bool RowMover::Claim(uint32_t number, bool* held) {
  Bucket& bucket = context_.buckets[number];
  if (held != nullptr) *held = false;
  if (bucket.damaged) return false;
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  if (held != nullptr) *held = bucket.held;
  if (!MayBeClaimed(bucket)) return false;
  TakeClaim(&bucket);
  return true;
}

bool RowMover::AwaitClaim(uint32_t number, uint64_t wanted_count) {
  Bucket& bucket = context_.buckets[number];
  ENGINE_RACE_ASSERT(!bucket.damaged);
  std::unique_lock<std::mutex> lock(bucket.mutex);
  while (true) {
    if (wanted_count != 0 && rows_.HasRoom(number, wanted_count)) return false;
    if (MayBeClaimed(bucket)) break;
    bucket.WaitForRelease(&lock);
  }
  TakeClaim(&bucket);
  return true;
}

void RowMover::Unclaim(uint32_t number) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  ENGINE_RACE_ASSERT(bucket.claimed);
  const uint64_t end_before = bucket.FoundBySlotEnd();
  bucket.claimed = false;
  bucket.CountMoreGaps(end_before);
  bucket.FillUnemptied();
  bucket.WakeAwaitingRelease();
}

Status RowMover::Empty(uint32_t number, std::span<const uint32_t> rows) {
  Bucket& bucket = context_.buckets[number];
  const std::lock_guard<std::mutex> lock(bucket.mutex);
  return Guarded([&] {
    for (const uint32_t row : rows) {
      bucket.emptied.insert(row);
      bucket.CountGaps(row);
    }
    return Status::Ok();
  });
}

}  // namespace engine_race
