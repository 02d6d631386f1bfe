#include "engine_race/log/batch_holds.h"

#include "engine_race/base/assert.h"
#include "engine_race/log/append_listener.h"

namespace engine_race {
namespace {

// How many buckets ahead the cache lines of a bucket are asked for.
constexpr size_t kBucketsAhead = 4;

bool HasPut(const BatchPlan& plan, const BatchPart& part) {
  for (uint32_t i = part.begin; i < part.end; ++i) {
    if (plan.record(i).value != nullptr) return true;
  }
  return false;
}

}  // namespace

BatchHolds::~BatchHolds() {
  for (BatchPart& part : plan_.parts()) {
    if (!part.held) continue;
    Bucket& bucket = context_.buckets[part.bucket];
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    if (part.placed) GiveBack(part);
    part.held = false;
    bucket.Release();
  }
}

Status BatchHolds::HoldAll(bool* too_large) {
  const std::span<BatchPart> parts = plan_.parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i + kBucketsAhead < parts.size()) {
      context_.buckets[parts[i + kBucketsAhead].bucket].Prefetch();
    }
    BatchPart& part = parts[i];
    Bucket& bucket = context_.buckets[part.bucket];
    if (bucket.damaged) [[unlikely]] {
      return context_.DamagedCounts(part.bucket);
    }
    ENGINE_RACE_RETURN_IF_ERROR(context_.staging.ReserveCounts());
    std::unique_lock<std::mutex> lock(bucket.mutex);
    ENGINE_RACE_RETURN_IF_ERROR(Hold(&part, &lock, /*unclaimed=*/too_large == nullptr));
    if (too_large == nullptr) {
      ENGINE_RACE_RETURN_IF_ERROR(PrepareListener(part));
      continue;
    }
    *too_large = !bucket.values.CanHold(part.first_sequence, part.size()) ||
                 !bucket.keys.CanHold(part.first_sequence, part.size());
    if (*too_large) return Status::Ok();
    ENGINE_RACE_RETURN_IF_ERROR(TakePlaces(&part, &lock));
  }
  return Status::Ok();
}

// `unclaimed`: a large batch holds its buckets for long. So it waits for the thread that cleans
// one, and no such thread has to wait for the batch: see RowMover::Claim.
Status BatchHolds::Hold(BatchPart* part, std::unique_lock<std::mutex>* lock, bool unclaimed) {
  Bucket& bucket = context_.buckets[part->bucket];
  bucket.AwaitRelease(lock, unclaimed);
  if (context_.latch.latched()) [[unlikely]] {
    return context_.latch.status();
  }
  if (!bucket.may_stage) [[unlikely]] {
    ENGINE_RACE_RETURN_IF_ERROR(groups_.PrepareStaging(part->bucket));
  }
  if (bucket.listener != nullptr && HasPut(plan_, *part)) {
    ENGINE_RACE_RETURN_IF_ERROR(bucket.listener->CheckRoom());
  }
  // All slots at once: a batch that is committed meets no full bucket and no full disk for rows.
  ENGINE_RACE_RETURN_IF_ERROR(groups_.MakeSlots(part->bucket, part->size()));
  bucket.held = true;
  part->held = true;
  part->placed = false;
  part->listener = bucket.listener;
  part->first_sequence = bucket.record_count;
  return Status::Ok();
}

// Under the bucket's lock.
Status BatchHolds::PrepareListener(const BatchPart& part) {
  if (part.listener == nullptr) return Status::Ok();
  if (part.size() == 1) return part.listener->Prepare(part.bucket);
  return part.listener->PrepareMany(part.bucket, part.size(),
                                    [&](uint32_t i) { return plan_.record(part.begin + i).key; });
}

// Under the bucket's lock, which is dropped while a group is written or waited for.
Status BatchHolds::TakePlaces(BatchPart* part, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = context_.buckets[part->bucket];
  ENGINE_RACE_ASSERT(part->held && bucket.held && !part->placed);
  while (true) {
    if (context_.latch.latched()) [[unlikely]] {
      return context_.latch.status();
    }
    // A full group that nobody writes is one whose write failed: see GroupWriter::MakeRoom.
    FullGroup full;
    if (bucket.FindIdleGroup(&full)) [[unlikely]] {
      ENGINE_RACE_RETURN_IF_ERROR(groups_.WriteIdleGroups(part->bucket, lock));
      continue;
    }
    bool must_wait = !bucket.values.HasRoomFor(part->first_sequence, part->size()) ||
                     !bucket.keys.HasRoomFor(part->first_sequence, part->size());
    if (!must_wait) {
      ENGINE_RACE_RETURN_IF_ERROR(groups_.ReservePlaces(part->bucket, part->size(), &must_wait));
    }
    if (!must_wait) [[likely]] {
      break;
    }
    bucket.written.wait(*lock);
  }
  ENGINE_RACE_RETURN_IF_ERROR(PrepareListener(*part));
  const uint64_t end = part->end_sequence();
  for (Lane* lane : {&bucket.values, &bucket.keys}) {
    for (uint64_t slot = lane->NextGroup(part->first_sequence); slot < end;
         slot += lane->group_records()) {
      lane->TakePlace(slot, lane->FreePlace());
    }
  }
  part->value_places = bucket.values.places_word();
  part->key_places = bucket.keys.places_word();
  part->placed = true;
  return Status::Ok();
}

void BatchHolds::GiveBack(const BatchPart& part) {
  Bucket& bucket = context_.buckets[part.bucket];
  ENGINE_RACE_ASSERT(bucket.record_count == part.first_sequence);
  // Its records may be staged.
  bucket.may_stage = false;
  const uint64_t end = part.end_sequence();
  for (Lane* lane : {&bucket.values, &bucket.keys}) {
    for (uint64_t slot = lane->NextGroup(part.first_sequence); slot < end;
         slot += lane->group_records()) {
      lane->GiveBackPlace(slot);
    }
  }
}

}  // namespace engine_race
