#include "engine_race/log/device_header.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"

namespace engine_race {
namespace {

using format::DeviceHeader;

uint64_t ChecksumOf(const DeviceHeader& header) {
  return Hash64(&header, offsetof(DeviceHeader, checksum), format::kDeviceMagic);
}

// kNotFound where there is no header; kCorruption for a damaged one.
Status ReadDeviceHeader(const io::File& file, DeviceHeader* header) {
  Region block;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kDeviceHeaderBytes, /*huge_pages=*/false, &block));
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(block.data(), block.size(), 0));
  std::memcpy(header, block.data(), sizeof(*header));
  if (header->magic != format::kDeviceMagic) return Status::NotFound();
  if (header->checksum != ChecksumOf(*header)) {
    return Status::Corruption(file.name() + ": the checksum of its device header does not match");
  }
  if (header->format_version != format::kDeviceVersion) {
    return Status::NotSupported(file.name() + ": device format version " +
                                std::to_string(header->format_version));
  }
  if (header->segment_count == 0 || header->segment_count > format::kMaxFilePlaces) {
    return Status::NotSupported(file.name() + ": an impossible number of segments");
  }
  return Status::Ok();
}

}  // namespace

Status PlanSegments(uint64_t device_bytes, uint64_t segment_bytes, uint32_t* segment_count) {
  const uint64_t least_bytes = format::kDeviceDataOffset + segment_bytes;
  if (device_bytes < least_bytes) {
    return Status::InvalidArgument("a device of " + std::to_string(device_bytes) +
                                   " bytes is too small: a header and one segment take " +
                                   std::to_string(least_bytes));
  }
  *segment_count = static_cast<uint32_t>(
      std::min((device_bytes - format::kDeviceDataOffset) / segment_bytes, format::kMaxFilePlaces));
  return Status::Ok();
}

Status CheckFree(const io::BlockDevice& device, bool overwrite, uint64_t store_id, bool* foreign) {
  *foreign = false;
  if (overwrite) return Status::Ok();
  DeviceHeader found;
  if (ReadDeviceHeader(device.file, &found).ok()) {
    if (found.store_id == store_id) return Status::Ok();
    *foreign = true;
    return Status::InvalidArgument("the device belongs to another store");
  }
  bool holds = false;
  ENGINE_RACE_RETURN_IF_ERROR(device.HoldsSomething(&holds));
  if (!holds) return Status::Ok();
  return Status::InvalidArgument(
      "the device is not empty: its first or last MiB holds data; overwrite_devices takes it all "
      "the same");
}

Status WriteDeviceHeader(const io::BlockDevice& device, DeviceHeader header) {
  constexpr uint64_t kBytes = format::kDeviceDataOffset;
  const uint64_t zeroed_bytes = std::min(kBytes, device.size_bytes);
  Region zeros;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(zeroed_bytes, /*huge_pages=*/false, &zeros));
  for (const uint64_t offset : {uint64_t{0}, device.size_bytes - zeroed_bytes}) {
    ENGINE_RACE_RETURN_IF_ERROR(device.file.Write(zeros.data(), zeros.size(), offset));
  }
  Region block;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kDeviceHeaderBytes, /*huge_pages=*/false, &block));
  header.magic = format::kDeviceMagic;
  header.format_version = format::kDeviceVersion;
  header.checksum = ChecksumOf(header);
  std::memcpy(block.data(), &header, sizeof(header));
  ENGINE_RACE_RETURN_IF_ERROR(device.file.Write(block.data(), block.size(), 0));
  return device.file.Sync();
}

Status CheckDeviceHeader(const io::BlockDevice& device, const DeviceHeader& expected, Code wrong,
                         uint32_t* segment_count) {
  DeviceHeader found;
  const Status status = ReadDeviceHeader(device.file, &found);
  if (status.code() == Code::kNotFound) {
    return Status(wrong, "the device holds no values of an engine_race store");
  }
  ENGINE_RACE_RETURN_IF_ERROR(status);
  if (found.store_id != expected.store_id) {
    return Status(wrong, "the device belongs to another store");
  }
  if (found.path_index != expected.path_index || found.path_count != expected.path_count) {
    return Status(wrong, "the device is path " + std::to_string(found.path_index) + " of " +
                             std::to_string(found.path_count) + " of the store");
  }
  if (found.segment_bytes != expected.segment_bytes) {
    return Status::NotSupported("the device has segments of " +
                                std::to_string(found.segment_bytes) + " bytes, not of " +
                                std::to_string(expected.segment_bytes));
  }
  *segment_count = found.segment_count;
  if (device.size_bytes < format::kDeviceDataOffset + found.segment_count * found.segment_bytes) {
    return Status::Corruption("the device has shrunk to " + std::to_string(device.size_bytes) +
                              " bytes");
  }
  return Status::Ok();
}

}  // namespace engine_race
