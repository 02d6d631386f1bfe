#include "engine_race/log/slot_files.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "engine_race/base/round_up.h"

namespace engine_race {
namespace {

// Files grow by one of so many segments that they have, so that most segments find them large
// enough.
constexpr uint64_t kSegmentsPerGrown = 32;

// Calls visit(slot, count) with the parts of a range of slots that lie in one segment each.
template <typename Visit>
Status ForEachSegment(uint64_t slot, uint64_t slot_count, const Visit& visit) {
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const uint64_t count =
        std::min(format::kSegmentRecords - slot % format::kSegmentRecords, end - slot);
    ENGINE_RACE_RETURN_IF_ERROR(visit(slot, count));
    slot += count;
  }
  return Status::Ok();
}

}  // namespace

void SlotFiles::Init(const Geometry& geometry, std::vector<ValuePath> paths) {
  geometry_ = geometry;
  paths_ = std::move(paths);
  value_files_.clear();
  value_bases_.clear();
  for (ValuePath& path : paths_) {
    path.first_file = static_cast<uint32_t>(value_files_.size());
    path.file_count = path.is_device() ? 1 : geometry.files_per_directory();
    value_files_.resize(path.first_file + path.file_count);
    value_bases_.resize(value_files_.size(), path.is_device() ? format::kDeviceDataOffset : 0);
    if (path.is_device()) value_files_[path.first_file] = std::move(path.device.file);
  }
  key_files_.clear();
  key_files_.resize(value_files_.size());
  room_.assign(value_files_.size(), 0);
}

Status SlotFiles::Load(uint64_t seed_id, bool read_only, uint64_t* damaged_count) {
  std::vector<SegmentTable::Path> paths;
  for (const ValuePath& path : paths_) {
    paths.push_back({path.first_file, path.file_count,
                     path.is_device() ? path.segment_count : format::kMaxFilePlaces});
  }
  table_ = std::make_unique<SegmentTable>(geometry_, seed_id, std::move(paths));
  ENGINE_RACE_RETURN_IF_ERROR(table_->Load(*table_file_, damaged_count));
  if (read_only) return Status::Ok();
  for (uint32_t file = 0; file < file_count(); ++file) {
    uint64_t key_bytes = 0;
    uint64_t value_bytes = 0;
    ENGINE_RACE_RETURN_IF_ERROR(key_files_[file].Size(&key_bytes));
    if (!IsDevice(file)) ENGINE_RACE_RETURN_IF_ERROR(value_files_[file].Size(&value_bytes));
    const uint64_t key_room = key_bytes / format::kSegmentKeyBytes;
    room_[file] =
        IsDevice(file) ? key_room : std::min(key_room, value_bytes / format::kSegmentValueBytes);
    ENGINE_RACE_RETURN_IF_ERROR(Grow(file, table_->PlaceEnd(file)));
  }
  return Status::Ok();
}

SlotLocation SlotFiles::Locate(const Files& files, uint64_t segment_bytes, uint32_t bucket,
                               uint64_t slot, uint64_t slot_count) const {
  const uint64_t slot_bytes = segment_bytes / format::kSegmentRecords;
  const uint64_t segment = slot / format::kSegmentRecords;
  const uint64_t in_segment = slot % format::kSegmentRecords;
  SlotLocation location;
  location.slot_count = std::min(format::kSegmentRecords - in_segment, slot_count);
  SegmentPlace place;
  if (!table_->Find(bucket, segment, &place)) {
    location.file = &files.front();
    return location;
  }
  location.file = &files[place.file];
  location.file_number = place.file;
  location.offset = OffsetOf(files, segment_bytes, place) + in_segment * slot_bytes;
  SegmentPlace next;
  for (uint64_t i = 1; location.slot_count < slot_count; ++i) {
    if (!table_->Find(bucket, segment + i, &next) || next.file != place.file ||
        next.place != place.place + i) {
      break;
    }
    location.slot_count = std::min(location.slot_count + format::kSegmentRecords, slot_count);
  }
  return location;
}

Status SlotFiles::Give(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  return ForEachSegment(slot, slot_count, [&](uint64_t first, uint64_t) {
    const uint64_t segment = first / format::kSegmentRecords;
    SegmentPlace place;
    if (table_->Find(bucket, segment, &place)) return Status::Ok();
    return table_->Give(bucket, segment, [this](uint32_t file, uint64_t place_count) {
      return Grow(file, place_count);
    });
  });
}

bool SlotFiles::NumberOf(uint32_t bucket, uint64_t segment, uint64_t* number) const {
  SegmentPlace place;
  if (!table_->Find(bucket, segment, &place)) return false;
  *number = table_->NumberOf(place);
  return true;
}

Status SlotFiles::Grow(uint32_t file, uint64_t place_count) const {
  if (place_count <= room_[file]) return Status::Ok();
  const uint64_t room = place_count + place_count / kSegmentsPerGrown;
  if (!IsDevice(file)) {
    const uint64_t value_bytes = room * format::kSegmentValueBytes;
    ENGINE_RACE_RETURN_IF_ERROR(sys::CheckFileSizeLimit(value_bytes));
    ENGINE_RACE_RETURN_IF_ERROR(value_files_[file].Truncate(value_bytes));
  }
  ENGINE_RACE_RETURN_IF_ERROR(key_files_[file].Truncate(room * format::kSegmentKeyBytes));
  room_[file] = room;
  return Status::Ok();
}

Status SlotFiles::Read(const Files& files, uint64_t segment_bytes, uint32_t bucket, uint64_t slot,
                       uint64_t slot_count, char* buffer) const {
  const uint64_t slot_bytes = segment_bytes / format::kSegmentRecords;
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = Locate(files, segment_bytes, bucket, slot, end - slot);
    const uint64_t bytes = location.slot_count * slot_bytes;
    size_t read_bytes = 0;
    if (location.found()) {
      ENGINE_RACE_RETURN_IF_ERROR(
          location.file->ReadSome(buffer, bytes, location.offset, &read_bytes));
    }
    // A power loss may have left the file short.
    std::memset(buffer + read_bytes, 0, bytes - read_bytes);
    buffer += bytes;
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status SlotFiles::Write(const Files& files, uint64_t segment_bytes, uint32_t bucket, uint64_t slot,
                        uint64_t slot_count, const char* data) const {
  const uint64_t slot_bytes = segment_bytes / format::kSegmentRecords;
  ENGINE_RACE_RETURN_IF_ERROR(Give(bucket, slot, slot_count));
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = Locate(files, segment_bytes, bucket, slot, end - slot);
    const uint64_t bytes = location.slot_count * slot_bytes;
    ENGINE_RACE_RETURN_IF_ERROR(location.file->Write(data, bytes, location.offset));
    data += bytes;
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status SlotFiles::ReadValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                             void* buffer) const {
  return Read(value_files_, format::kSegmentValueBytes, bucket, slot, slot_count,
              static_cast<char*>(buffer));
}

Status SlotFiles::ReadKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                           void* buffer) const {
  return Read(key_files_, format::kSegmentKeyBytes, bucket, slot, slot_count,
              static_cast<char*>(buffer));
}

Status SlotFiles::WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                              const void* data) const {
  return Write(value_files_, format::kSegmentValueBytes, bucket, slot, slot_count,
               static_cast<const char*>(data));
}

Status SlotFiles::WriteKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                            const void* data) const {
  return Write(key_files_, format::kSegmentKeyBytes, bucket, slot, slot_count,
               static_cast<const char*>(data));
}

Status SlotFiles::ReserveValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = LocateValues(bucket, slot, end - slot);
    bool supported = false;
    // A place on a device is space.
    if (location.found() && !IsDevice(location.file_number)) {
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Reserve(
          /*keep_size=*/true, location.offset, location.slot_count * kValueBytes, &supported));
    }
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status SlotFiles::ReserveKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = LocateKeys(bucket, slot, end - slot);
    const uint64_t begin = location.offset / kIoAlignment * kIoAlignment;
    const uint64_t bytes = location.slot_count * format::kKeyEntryBytes;
    bool supported = false;
    if (location.found()) {
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Reserve(
          /*keep_size=*/true, begin,
          RoundUp(location.offset + bytes, uint64_t{kIoAlignment}) - begin, &supported));
    }
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status SlotFiles::PunchValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                              bool* supported) const {
  *supported = true;
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = LocateValues(bucket, slot, end - slot);
    // The space of a device stays with its segment.
    bool punched = !location.found();
    if (location.found() && !IsDevice(location.file_number)) {
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Punch(
          location.offset, location.offset + location.slot_count * kValueBytes, &punched));
    }
    *supported = *supported && punched;
    slot += location.slot_count;
  }
  return Status::Ok();
}

Status SlotFiles::PunchKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                            bool* supported) const {
  *supported = true;
  for (const uint64_t end = slot + slot_count; slot < end && *supported;) {
    const SlotLocation location = LocateKeys(bucket, slot, end - slot);
    if (location.found()) {
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Punch(
          location.offset, location.offset + location.slot_count * format::kKeyEntryBytes,
          supported));
    }
    slot += location.slot_count;
  }
  return Status::Ok();
}

bool SlotFiles::MayHoldValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = LocateValues(bucket, slot, end - slot);
    if (location.found() && !IsDevice(location.file_number) &&
        location.file->MayHoldData(location.offset,
                                   location.offset + location.slot_count * kValueBytes)) {
      return true;
    }
    slot += location.slot_count;
  }
  return false;
}

std::string SlotFiles::Describe(const ValuePath& path) const {
  if (!path.is_device()) return "directory";
  return "raw device, " + std::to_string(table_->given_count(path.first_file)) + " of " +
         std::to_string(path.segment_count) + " segments of " +
         std::to_string(format::kSegmentValueBytes) + " bytes";
}

}  // namespace engine_race
