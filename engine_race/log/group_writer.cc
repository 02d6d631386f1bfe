// How full groups reach the logs: written by the thread that filled them, or by the next one that
// needs their place, then counted as flushed.
#include <algorithm>
#include <string>
#include <utility>

#include "engine_race/base/guarded.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/log/region_pool.h"

namespace engine_race {
namespace {

// How far ahead of a group its log is reserved, in groups: 64 KiB to 1 MiB of 4 KiB key groups,
// 2 to 32 MiB of 128 KiB value groups.
constexpr uint64_t kMinReserveGroups = 16;
constexpr uint64_t kMaxReserveGroups = 256;

}  // namespace

bool BucketLog::FindIdleGroup(const Bucket& bucket, FullGroup* full) const {
  for (const LaneKind kind : {LaneKind::kValues, LaneKind::kKeys}) {
    const Lane& lane = kind == LaneKind::kValues ? bucket.values : bucket.keys;
    if (lane.FindIdleFullGroup(bucket.record_count, &full->group)) {
      full->lane = kind;
      full->place = lane.PlaceOf(full->group * lane.group_records());
      return true;
    }
  }
  return false;
}

// Writes every full group that nobody writes yet, the lock dropped meanwhile. Throws nothing: a
// group whose write had no end would be waited for for ever.
Status BucketLog::WriteIdleGroups(uint32_t index, std::unique_lock<std::mutex>* lock) {
  Bucket& bucket = buckets_[index];
  FullGroup full;
  while (FindIdleGroup(bucket, &full)) {
    LaneOf(&bucket, full.lane).BeginWrite(full.group);
    lock->unlock();
    Status written = Guarded([&] { return WriteGroup(index, full); });
    lock->lock();
    ENGINE_RACE_RETURN_IF_ERROR(FinishWrite(index, full, std::move(written)));
  }
  return Status::Ok();
}

Status BucketLog::WriteGroup(uint32_t index, const FullGroup& full) {
  RegionPool::Lease buffer;
  const char* group = nullptr;
  if (full.lane == LaneKind::kValues) {
    const uint64_t begin = full.group * geometry().value_group_bytes;
    // A group in an extra place: the bucket has several groups on their way, a large share of the
    // load.
    if (full.place >= format::kBasePlaces) {
      ReserveLog(index, full.lane, begin, begin + geometry().value_group_bytes);
    }
    ENGINE_RACE_RETURN_IF_ERROR(staging_.FullValues(index, full.place, &buffer, &group));
    return WriteValues(index, full.group * geometry().values_per_group(),
                       geometry().values_per_group(), group);
  }
  const uint64_t begin = full.group * geometry().key_group_bytes;
  ReserveLog(index, full.lane, begin, begin + geometry().key_group_bytes);
  ENGINE_RACE_RETURN_IF_ERROR(staging_.FullKeys(index, full.place, &buffer, &group));
  return WriteKeys(index, KeyOffset(index, 0) + begin, geometry().key_group_bytes, group);
}

// The slots belong to one group: their values lie in one piece.
Status BucketLog::WriteValues(uint32_t index, uint64_t slot, uint64_t slot_count,
                              const void* data) {
  ValuePlace place;
  ENGINE_RACE_RETURN_IF_ERROR(files_.values.LocateToWrite(index, slot, &place));
  ENGINE_RACE_RETURN_IF_ERROR(place.file->Write(data, slot_count * kValueBytes, place.offset));
  // After the write: the flush that clears the mark, in FlushLogs, begins after it too.
  dirty_files_[files_.key_files.size() + place.file_number].store(true);
  return Status::Ok();
}

Status BucketLog::WriteKeys(uint32_t index, uint64_t offset, uint64_t size_bytes,
                            const void* data) {
  ENGINE_RACE_RETURN_IF_ERROR(KeyFile(index).Write(data, size_bytes, offset));
  // After the write, as in WriteValues.
  dirty_files_[index / geometry().buckets_per_file()].store(true);
  return Status::Ok();
}

// Under the bucket's lock. Ok when the group is in its log and its lane has been told so.
Status BucketLog::FinishWrite(uint32_t index, const FullGroup& full, Status written) noexcept {
  Bucket& bucket = buckets_[index];
  Lane& lane = LaneOf(&bucket, full.lane);
  const bool values = full.lane == LaneKind::kValues;
  // The word comes before the lane, which lets the next group have the place: a flushed count that
  // lags behind would have recovery write that group where this one lies. A word that cannot be
  // written leaves the group to be written again.
  Lane moved = lane;
  if (written.ok() && moved.EndWrite(full.group, /*ok=*/true)) {
    const auto word = values ? format::WordKind::kFlushedValues : format::WordKind::kFlushedKeys;
    written = Guarded([&] { return staging_.PublishWord(index, word, moved.flushed()); });
  }
  if (written.ok()) {
    lane = moved;
    if (values) {
      // Release pairs with the acquire in FlushedValueCount.
      bucket.published_flushed_values.store(std::max(lane.flushed(), bucket.synced_count),
                                            std::memory_order_release);
    }
  } else {
    lane.EndWrite(full.group, /*ok=*/false);
    LatchIfLasting(written);
  }
  bucket.written.notify_all();
  if (written.ok()) {
    bucket.WakeOneIfRoom();
  } else {
    bucket.changed.notify_all();
  }
  return written;
}

// Reserves log space ahead of a group, in steps that grow with the log.
//
// Key groups are small and come seldom: without this the key log of a bucket would lie in as many
// pieces as it has groups, and the index build reads it as a whole. Value groups are large enough
// on their own, but where many of one bucket are under way at once, writes to space that the file
// has already can go on side by side, and those that must find space first cannot.
void BucketLog::ReserveLog(uint32_t index, LaneKind kind, uint64_t begin_bytes,
                           uint64_t end_bytes) {
  const bool values = kind == LaneKind::kValues;
  const uint64_t group_bytes = values ? geometry().value_group_bytes : geometry().key_group_bytes;
  const uint64_t region_bytes =
      values ? geometry().value_region_bytes() : geometry().key_region_bytes();
  const uint64_t step_bytes =
      std::clamp(begin_bytes, kMinReserveGroups * group_bytes, kMaxReserveGroups * group_bytes);
  Bucket& bucket = buckets_[index];
  {
    const std::lock_guard<std::mutex> lock(bucket.mutex);
    uint64_t& reserved = values ? bucket.reserved_value_bytes : bucket.reserved_key_bytes;
    if (end_bytes <= reserved) return;
    reserved = std::min(begin_bytes + step_bytes, region_bytes);
  }
  // A refusal (a full disk, a file system without the call) is for the write itself to report.
  const uint64_t reserve_end = std::min(begin_bytes + step_bytes, region_bytes);
  if (values) {
    files_.values.Reserve(index, begin_bytes, reserve_end);
    return;
  }
  bool supported = false;
  const Status reserved = KeyFile(index).Reserve(
      /*keep_size=*/true, KeyOffset(index, 0) + begin_bytes, reserve_end - begin_bytes, &supported);
  static_cast<void>(reserved);
}

}  // namespace engine_race
