#include "engine_race/log/slot_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "engine_race/base/file_system.h"
#include "engine_race/base/guarded.h"
#include "engine_race/base/round_up.h"
#include "engine_race/base/sys.h"
#include "engine_race/log/file_part.h"

namespace engine_race {

void SlotFiles::Init(const Geometry& geometry, int dir_fd, std::vector<ValuePath> paths,
                     io::Caching caching) {
  geometry_ = geometry;
  paths_ = std::move(paths);
  uint32_t file_count = 0;
  for (ValuePath& path : paths_) {
    path.first_file = file_count;
    path.file_count = path.is_device() ? 1 : geometry.files_per_directory();
    file_count += path.file_count;
  }
  key_files_ = Files(file_count);
  value_files_ = Files(file_count);
  value_bases_.assign(file_count, 0);
  growths_ = std::vector<FileGrowth>(file_count);
  plans_.assign(file_count, {});
  for (ValuePath& path : paths_) {
    if (path.is_device()) {
      value_bases_[path.first_file] = format::kDeviceDataOffset;
      value_files_[path.first_file] = std::move(path.device.file);
    }
    for (uint32_t i = 0; i < path.file_count; ++i) {
      const uint32_t file = path.first_file + i;
      const auto plan = [&](int dir, const std::string& name, const std::string& title,
                            io::File* opened) {
        plans_[file].push_back({dir, name, title, 0, caching, opened, /*is_opened_late=*/i != 0});
      };
      const std::string keys = NumberedName(format::kKeyFilePrefix, file);
      plan(dir_fd, keys, keys, &key_files_[file]);
      if (path.is_device()) continue;
      const std::string values = NumberedName(format::kValueFilePrefix, i);
      if (path.name.empty()) {
        plan(dir_fd, values, values, &value_files_[file]);
      } else {
        plan(path.directory.get(), values, values + " of " + path.name, &value_files_[file]);
      }
    }
  }
}

Status SlotFiles::Load(uint64_t seed_id, uint64_t* damaged_count, bool beside_writer) {
  std::vector<SegmentTable::Path> paths;
  for (const ValuePath& path : paths_) {
    paths.push_back({path.first_file, path.file_count,
                     path.is_device() ? path.segment_count : format::kMaxFilePlaces});
  }
  table_ = std::make_unique<SegmentTable>(geometry_, seed_id, std::move(paths));
  ENGINE_RACE_RETURN_IF_ERROR(table_->Load(*table_file_, damaged_count, beside_writer));
  has_damage_ = *damaged_count != 0;
  return Status::Ok();
}

Status SlotFiles::OpenUsed(bool read_only) {
  access_ = read_only ? io::Access::kRead : io::Access::kReadWrite;
  for (uint32_t file = 0; file < file_count(); ++file) {
    if (!IsNeeded(file)) continue;
    ENGINE_RACE_RETURN_IF_ERROR(Open(file));
    if (!read_only) ENGINE_RACE_RETURN_IF_ERROR(Grow(file, table_->PlaceEnd(file)));
  }
  return Status::Ok();
}

Status SlotFiles::Reload(uint32_t bucket) {
  const std::lock_guard<std::mutex> lock(*load_mutex_);
  // Other threads read the places as soon as they can be found.
  return table_->Reload(bucket, [this](uint32_t file) { return Open(file); });
}

void SlotFiles::SettleLocks() {
  for (ValuePath& path : paths_) path.lock.Settle();
}

void SlotFiles::CloseUnused() {
  for (uint32_t file = 0; file < file_count(); ++file) {
    if (IsNeeded(file)) continue;
    for (const PlannedFile& planned : plans_[file]) *planned.file = io::File();
  }
}

bool SlotFiles::IsNeeded(uint32_t file) const {
  return !plans_[file].front().is_opened_late || table_->PlaceEnd(file) != 0;
}

Status SlotFiles::Open(uint32_t file) const {
  FileGrowth& growth = growths_[file];
  // Relaxed: changed under the growth's mutex, and an opening has one thread.
  if (growth.is_open.load(std::memory_order_relaxed)) return Status::Ok();
  for (const PlannedFile& planned : plans_[file]) {
    if (planned.file->valid()) continue;
    ENGINE_RACE_RETURN_IF_ERROR(OpenPlanned(planned, access_));
  }
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
  ENGINE_RACE_RETURN_IF_ERROR(key_files_[file].Size(&key_bytes));
  if (!IsDevice(file)) ENGINE_RACE_RETURN_IF_ERROR(value_files_[file].Size(&value_bytes));
  const uint64_t key_room = key_bytes / geometry_.segment_key_bytes();
  // Who only reads takes no lock of it.
  if (on_open_ && access_ != io::Access::kRead) ENGINE_RACE_RETURN_IF_ERROR(on_open_(file));
  // Release, for is_open and HasRoom.
  growth.is_open.store(true, std::memory_order_release);
  growth.room.store(
      IsDevice(file) ? key_room : std::min(key_room, value_bytes / geometry_.segment_value_bytes()),
      std::memory_order_release);
  return Status::Ok();
}

SlotLocation SlotFiles::Locate(const Files& files, uint32_t bucket, uint64_t slot,
                               uint64_t slot_count) const {
  const uint64_t slot_bytes = SlotBytesOf(files);
  const uint64_t row_records = geometry_.row_records();
  const uint64_t segment = slot / row_records;
  const uint64_t in_segment = slot % row_records;
  SlotLocation location;
  location.slot_count = std::min(row_records - in_segment, slot_count);
  SegmentPlace place;
  if (!table_->Find(bucket, segment, &place)) {
    location.file = &files.front();
    return location;
  }
  location.file = &files[place.file];
  location.file_number = place.file;
  location.offset = OffsetOf(files, place) + in_segment * slot_bytes;
  // Padding lies between the slots of two segments.
  if (slot_bytes * row_records % kIoAlignment != 0) return location;
  SegmentPlace next;
  for (uint64_t i = 1; location.slot_count < slot_count; ++i) {
    if (!table_->Find(bucket, segment + i, &next) || next.file != place.file ||
        next.place != place.place + i) {
      break;
    }
    location.slot_count = std::min(location.slot_count + row_records, slot_count);
  }
  return location;
}

template <typename Visit>
Status SlotFiles::ForEachPiece(const Files& files, uint32_t bucket, uint64_t slot,
                               uint64_t slot_count, const Visit& visit) const {
  for (const uint64_t end = slot + slot_count; slot < end;) {
    const SlotLocation location = Locate(files, bucket, slot, end - slot);
    slot += location.slot_count;
    ENGINE_RACE_RETURN_IF_ERROR(visit(location, slot));
  }
  return Status::Ok();
}

Status SlotFiles::Give(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  const uint64_t row_records = geometry_.row_records();
  for (uint64_t row = slot / row_records; row * row_records < slot + slot_count; ++row) {
    if (!HasPlace(bucket, row)) ENGINE_RACE_RETURN_IF_ERROR(GiveRow(bucket, row, nullptr));
  }
  return Status::Ok();
}

Status SlotFiles::GiveRow(uint32_t bucket, uint64_t row,
                          const SegmentTable::PrepareFn* prepare) const {
  const auto free_bytes_of = [this](size_t path) { return FreeBytes(path); };
  const auto has_room = [this](uint32_t file, uint64_t place_count) {
    return HasRoom(file, place_count);
  };
  const auto grow = [this](uint32_t file, uint64_t place_count) {
    const std::lock_guard<std::mutex> lock(growths_[file].mutex);
    Status grown = Grow(file, place_count);
    // A shortage of descriptors may pass, as one of memory may.
    const bool may_pass = grown.error() == EMFILE || grown.error() == ENFILE;
    return may_pass ? grown.Reworded(Code::kOutOfMemory, grown.message()) : grown;
  };
  return table_->Give(bucket, row, free_bytes_of, has_room, grow, prepare);
}

// If the file system does not tell, the path counts as having space. A write that finds none fails.
uint64_t SlotFiles::FreeBytes(size_t path) const {
  uint64_t free_bytes = ~uint64_t{0};
  if (paths_[path].is_device()) return free_bytes;
  // The first file of a path is always open.
  const int fd = value_files_[paths_[path].first_file].fd();
  static_cast<void>(Guarded([&] { return sys::FreeBytes(fd, &free_bytes); }));
  return free_bytes;
}

bool SlotFiles::HasPlace(uint32_t bucket, uint64_t row) const {
  SegmentPlace place;
  return table_->Find(bucket, row, &place);
}

bool SlotFiles::NumberOf(uint32_t bucket, uint64_t row, uint64_t* number) const {
  SegmentPlace place;
  if (!table_->Find(bucket, row, &place)) return false;
  *number = table_->NumberOf(place);
  return true;
}

uint64_t SlotFiles::PlacedEnd(uint32_t bucket, uint64_t slot, uint64_t end) const {
  const uint64_t row_records = geometry_.row_records();
  SegmentPlace place;
  while (slot < end && table_->Find(bucket, slot / row_records, &place)) {
    slot += row_records - slot % row_records;
  }
  return slot;
}

Status SlotFiles::Read(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count,
                       void* buffer) const {
  auto* to = static_cast<char*>(buffer);
  const auto read = [&](const SlotLocation& location, uint64_t /*end_slot*/) {
    const uint64_t bytes = location.slot_count * SlotBytesOf(files);
    size_t read_bytes = 0;
    if (location.found()) {
      ENGINE_RACE_RETURN_IF_ERROR(
          ReadPart(*location.file, to, bytes, location.offset, &read_bytes));
    }
    // A power loss may have left the file short.
    std::memset(to + read_bytes, 0, bytes - read_bytes);
    to += bytes;
    return Status::Ok();
  };
  return ForEachPiece(files, bucket, slot, slot_count, read);
}

Status SlotFiles::Write(const Files& files, uint32_t bucket, uint64_t slot, uint64_t slot_count,
                        const void* data) const {
  const auto* from = static_cast<const char*>(data);
  const auto write = [&](const SlotLocation& location, uint64_t /*end_slot*/) {
    const uint64_t bytes = location.slot_count * SlotBytesOf(files);
    ENGINE_RACE_RETURN_IF_ERROR(WritePart(*location.file, from, bytes, location.offset));
    from += bytes;
    return Status::Ok();
  };
  ENGINE_RACE_RETURN_IF_ERROR(Give(bucket, slot, slot_count));
  return ForEachPiece(files, bucket, slot, slot_count, write);
}

Status SlotFiles::Reserve(const Files& files, uint32_t bucket, uint64_t slot,
                          uint64_t slot_count) const {
  const auto reserve = [&](const SlotLocation& location, uint64_t /*end_slot*/) {
    if (!location.found()) return Status::Ok();
    // A place on a device is space.
    if (&files == &value_files_ && IsDevice(location.file_number)) return Status::Ok();
    const Blocks blocks = BlocksAround(location.offset, location.slot_count * SlotBytesOf(files));
    bool supported = false;
    return location.file->Reserve(/*keep_size=*/true, blocks.offset, blocks.size_bytes, &supported);
  };
  return ForEachPiece(files, bucket, slot, slot_count, reserve);
}

Status SlotFiles::ReadValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                             void* buffer) const {
  return Read(value_files_, bucket, slot, slot_count, buffer);
}

Status SlotFiles::ReadKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                           void* buffer) const {
  return Read(key_files_, bucket, slot, slot_count, buffer);
}

Status SlotFiles::WriteValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                              const void* data) const {
  return Write(value_files_, bucket, slot, slot_count, data);
}

Status SlotFiles::WriteKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                            const void* data) const {
  return Write(key_files_, bucket, slot, slot_count, data);
}

Status SlotFiles::ReserveValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  return Reserve(value_files_, bucket, slot, slot_count);
}

Status SlotFiles::ReserveKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  return Reserve(key_files_, bucket, slot, slot_count);
}

// The blocks that have parts of no other slots than those at `location`, which end before
// `end_slot`. Behind the last slot of a segment there is none.
Blocks SlotFiles::WholeBlocksOf(const SlotLocation& location, uint64_t end_slot) const {
  const uint64_t slots_end = location.offset + location.slot_count * geometry_.slot_bytes();
  const bool ends_segment = end_slot % geometry_.row_records() == 0;
  const uint64_t begin = RoundUp(location.offset, kIoAlignment);
  const uint64_t end =
      ends_segment ? RoundUp(slots_end, kIoAlignment) : slots_end / kIoAlignment * kIoAlignment;
  return {begin, end - std::min(begin, end)};
}

Status SlotFiles::PunchValues(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                              bool* supported) const {
  *supported = true;
  const auto punch = [&](const SlotLocation& location, uint64_t end_slot) {
    if (!location.found()) return Status::Ok();
    // The space of a device stays with its segment.
    bool punched = !IsDevice(location.file_number);
    const Blocks blocks = WholeBlocksOf(location, end_slot);
    if (punched && blocks.size_bytes != 0) {
      const uint64_t end = blocks.offset + blocks.size_bytes;
      ENGINE_RACE_RETURN_IF_ERROR(location.file->Punch(blocks.offset, end, &punched));
    }
    *supported = *supported && punched;
    return Status::Ok();
  };
  return ForEachPiece(value_files_, bucket, slot, slot_count, punch);
}

Status SlotFiles::PunchKeys(uint32_t bucket, uint64_t slot, uint64_t slot_count,
                            bool* supported) const {
  *supported = true;
  const auto punch = [&](const SlotLocation& location, uint64_t /*end_slot*/) {
    if (!location.found() || !*supported) return Status::Ok();
    return location.file->Punch(
        location.offset, location.offset + location.slot_count * format::kKeyEntryBytes, supported);
  };
  return ForEachPiece(key_files_, bucket, slot, slot_count, punch);
}

bool SlotFiles::MayHoldValues(uint32_t bucket, uint64_t slot, uint64_t slot_count) const {
  bool may_hold = false;
  const auto look = [&](const SlotLocation& location, uint64_t end_slot) {
    const Blocks blocks = WholeBlocksOf(location, end_slot);
    may_hold = may_hold ||
               (location.found() && !IsDevice(location.file_number) && blocks.size_bytes != 0 &&
                location.file->MayHoldData(blocks.offset, blocks.offset + blocks.size_bytes));
    return Status::Ok();
  };
  static_cast<void>(ForEachPiece(value_files_, bucket, slot, slot_count, look));
  return may_hold;
}

std::string SlotFiles::Describe(const ValuePath& path) const {
  if (!path.is_device()) return "directory";
  return "raw device, " + std::to_string(table_->given_count(path.first_file)) + " of " +
         std::to_string(path.segment_count) + " segments of " +
         std::to_string(geometry_.segment_value_bytes()) + " bytes";
}

}  // namespace engine_race
