#include "engine_race/log/value_files.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace engine_race {

void ValueFiles::Init(const Geometry& geometry, std::vector<ValuePath> paths) {
  paths_ = std::move(paths);
  const uint64_t unit_slots = geometry.value_unit_bytes() / kValueBytes;
  unit_shift_ = static_cast<uint32_t>(std::countr_zero(unit_slots));
  unit_mask_ = unit_slots - 1;
  file_shift_ = static_cast<uint32_t>(std::countr_zero(geometry.buckets_per_file()));
  file_mask_ = geometry.buckets_per_file() - 1;
  path_region_bytes_ = geometry.path_region_bytes();
  uint32_t file_count = 0;
  for (ValuePath& path : paths_) {
    path.first_file = file_count;
    file_count += path.units == nullptr ? geometry.file_count : 1;
  }
  files_.clear();
  files_.resize(file_count);
  for (ValuePath& path : paths_) {
    if (path.units != nullptr) files_[path.first_file] = std::move(path.device.file);
  }
}

Status ValueFiles::LocateToWrite(uint32_t bucket, uint64_t slot, ValueLocation* location) const {
  const UnitLocation unit = UnitOf(bucket, slot);
  const ValuePath& path = paths_[unit.path];
  if (path.units == nullptr) {
    *location = LocateByArithmetic(path, bucket, unit, slot);
    return Status::Ok();
  }
  uint64_t unit_offset = 0;
  ENGINE_RACE_RETURN_IF_ERROR(path.units->FindToWrite(bucket, unit.local, &unit_offset));
  *location = LocationAt(path.first_file, unit_offset, slot);
  return Status::Ok();
}

Status ValueFiles::Read(uint32_t bucket, uint64_t slot, uint64_t slot_count, char* buffer) const {
  while (slot_count > 0) {
    const ValueLocation location = Locate(bucket, slot);
    const uint64_t count = std::min<uint64_t>(location.slot_count, slot_count);
    if (location.offset == UnitMap::kNowhere) {
      std::memset(buffer, 0, count * kValueBytes);
    } else {
      ENGINE_RACE_RETURN_IF_ERROR(
          location.file->Read(buffer, count * kValueBytes, location.offset));
    }
    buffer += count * kValueBytes;
    slot += count;
    slot_count -= count;
  }
  return Status::Ok();
}

// The units of a range that lie on one path are neighbours there: one call a path does.
Status ValueFiles::Reserve(uint32_t bucket, uint64_t begin_bytes, uint64_t end_bytes) const {
  if (begin_bytes >= end_bytes) return Status::Ok();
  const uint64_t unit_bytes = unit_slots() * kValueBytes;
  const uint64_t first_unit = begin_bytes / unit_bytes;
  const uint64_t last_unit = (end_bytes - 1) / unit_bytes;
  const uint64_t path_count = paths_.size();
  for (uint64_t first = first_unit; first <= std::min(last_unit, first_unit + path_count - 1);
       ++first) {
    const UnitLocation unit = UnitOf(bucket, first << unit_shift_);
    const ValuePath& path = paths_[unit.path];
    if (path.units != nullptr) continue;
    const uint64_t last = first + (last_unit - first) / path_count * path_count;
    const uint64_t skipped = first == first_unit ? begin_bytes - first * unit_bytes : 0;
    const uint64_t left = last == last_unit ? (last + 1) * unit_bytes - end_bytes : 0;
    const ValueLocation location = LocateByArithmetic(path, bucket, unit, 0);
    const uint64_t local_bytes = (last / path_count - first / path_count + 1) * unit_bytes;
    bool supported = false;
    ENGINE_RACE_RETURN_IF_ERROR(location.file->Reserve(
        /*keep_size=*/true, location.offset + skipped, local_bytes - skipped - left, &supported));
  }
  return Status::Ok();
}

Status ValueFiles::Punch(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                         bool* supported) const {
  *supported = true;
  while (slot_count > 0) {
    const ValueLocation location = Locate(bucket, slot);
    const uint64_t count = std::min<uint64_t>(location.slot_count, slot_count);
    // The space of a device stays with its unit.
    const bool in_device = paths_[UnitOf(bucket, slot).path].units != nullptr;
    bool punched = !in_device;
    if (punched) {
      ENGINE_RACE_RETURN_IF_ERROR(
          location.file->Punch(location.offset, location.offset + count * kValueBytes, &punched));
    }
    *supported = *supported && punched;
    slot += count;
    slot_count -= count;
  }
  return Status::Ok();
}

bool ValueFiles::MayHoldData(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  while (slot_count > 0) {
    const ValueLocation location = Locate(bucket, slot);
    const uint64_t count = std::min<uint64_t>(location.slot_count, slot_count);
    const bool in_device = paths_[UnitOf(bucket, slot).path].units != nullptr;
    if (!in_device &&
        location.file->MayHoldData(location.offset, location.offset + count * kValueBytes)) {
      return true;
    }
    slot += count;
    slot_count -= count;
  }
  return false;
}

Status ValueFiles::FlushMaps() const {
  for (const ValuePath& path : paths_) {
    if (path.units != nullptr) ENGINE_RACE_RETURN_IF_ERROR(path.units->Flush());
  }
  return Status::Ok();
}

}  // namespace engine_race
