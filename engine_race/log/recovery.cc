// What Open does with the counts and the staged groups that it finds.
//
// A group that was full but not yet counted as flushed may be in the log or not; writing it once
// more from staging is right either way, because its place has not been given away since. So
// recovery can be killed and begun again at any point. Partial groups stay where they are.
#include <string>

#include "engine_race/base/memory.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/bucket_log.h"

namespace engine_race {

Status BucketLog::Recover() {
  std::vector<BucketState> states;
  ENGINE_RACE_RETURN_IF_ERROR(staging_.ReadCounts(&states));
  bool readable = false;
  const Status recovered = RecoverFromPowerLoss(sys::BootId(), &states, &readable);
  if (!recovered.ok()) {
    if (!readable) return recovered;
    Latch(recovered);
  }
  for (uint32_t index = 0; index < geometry().bucket_count; ++index) {
    AdoptState(index, states[index]);
    if (buckets_[index].damaged) {
      Log(options_.log, LogLevel::kError, RefuseBadBucket(index).message());
      continue;
    }
    for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
      const Status recovered = RecoverLane(index, kind);
      if (recovered.ok()) continue;
      // The group stays staged and readable: the store opens, for reading at least.
      Log(options_.log, LogLevel::kWarning,
          "bucket " + std::to_string(index) +
              ": a full group could not be written to its log: " + recovered.ToString());
      LatchIfLasting(recovered);
    }
  }
  return Status::Ok();
}

void BucketLog::AdoptState(uint32_t index, const BucketState& state) {
  Bucket& bucket = buckets_[index];
  const bool lanes_ok =
      !state.damaged &&
      bucket.values.Init(geometry().values_per_group(), format::kValuePlaces,
                         state.flushed_value_count, state.record_count, state.value_places) &&
      bucket.keys.Init(geometry().keys_per_group(), format::kKeyPlaces, state.flushed_key_count,
                       state.record_count, state.key_places);
  bucket.damaged = !lanes_ok;
  if (bucket.damaged) return;
  bucket.record_count = state.record_count;
  bucket.synced_count = state.synced_count;
  bucket.reserved_key_bytes = state.flushed_key_count * sizeof(format::KeyEntry);
  bucket.reserved_value_bytes = state.flushed_value_count * kValueBytes;
  // Relaxed: no other thread has seen the log yet.
  bucket.published_count.store(state.record_count, std::memory_order_relaxed);
  bucket.published_flushed_values.store(state.flushed_value_count, std::memory_order_relaxed);
}

Status BucketLog::RecoverLane(uint32_t index, LaneKind kind) {
  Bucket& bucket = buckets_[index];
  Lane& lane = LaneOf(&bucket, kind);
  const bool values = kind == LaneKind::kValues;
  const uint64_t group_bytes = values ? geometry().value_group_bytes : geometry().key_group_bytes;
  FullGroup full;
  full.lane = kind;
  while (lane.FindIdleFullGroup(bucket.record_count, &full.group)) {
    ENGINE_RACE_RETURN_IF_ERROR(staging_.Reserve(index));
    Region group;
    ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(group_bytes, /*huge_pages=*/false, &group));
    const uint64_t first = full.group * lane.group_records();
    const uint32_t place = lane.PlaceOf(first);
    if (values) {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging_.ReadValues(index, place, 0, lane.group_records(), group.data()));
      ENGINE_RACE_RETURN_IF_ERROR(WriteValues(index, first, lane.group_records(), group.data()));
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(
          staging_.ReadKeys(index, place, 0, lane.group_records(),
                            reinterpret_cast<format::KeyEntry*>(group.data())));
      ENGINE_RACE_RETURN_IF_ERROR(
          KeyFile(index).Write(group.data(), group_bytes, KeyOffset(index, first)));
    }
    lane.BeginWrite(full.group);
    ENGINE_RACE_RETURN_IF_ERROR(FinishWrite(index, full, Status::Ok()));
  }
  return Status::Ok();
}

}  // namespace engine_race
