#include "engine_race/log/device_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "engine_race/base/checksum.h"
#include "engine_race/base/memory.h"
#include "engine_race/log/device_format.h"

namespace engine_race {
namespace {

using format::DeviceHeader;

uint64_t ChecksumOf(const DeviceHeader& header) {
  return Hash64(&header, offsetof(DeviceHeader, checksum), format::kDeviceMagic);
}

// Where extents may lie, in bytes.
uint64_t DataBytes(uint64_t device_bytes) {
  return device_bytes < format::kDeviceDataOffset ? 0 : device_bytes - format::kDeviceDataOffset;
}

}  // namespace

uint64_t DeviceIdentity::OffsetOf(uint64_t physical_extent) const {
  return format::kDeviceDataOffset + physical_extent * extent_bytes;
}

Status PlanExtents(uint64_t device_bytes, const Geometry& geometry, DeviceIdentity* identity) {
  const uint64_t data_bytes = DataBytes(device_bytes);
  const uint64_t wanted_count = uint64_t{format::kExtentsPerBucket} * geometry.bucket_count;
  const uint64_t least_bytes = std::max(geometry.value_unit_bytes(), kMinStripeUnitBytes);
  const uint64_t useful_bytes =
      std::min(std::bit_ceil(geometry.path_region_bytes()), format::kMaxExtentBytes);
  uint64_t extent_bytes = std::max(least_bytes, useful_bytes);
  while (extent_bytes > least_bytes && data_bytes / extent_bytes < wanted_count) extent_bytes /= 2;
  if (data_bytes < extent_bytes) {
    return Status::InvalidArgument(
        "a device of " + std::to_string(device_bytes) + " bytes is too small: a header of " +
        std::to_string(format::kDeviceDataOffset) + " bytes and one extent of " +
        std::to_string(extent_bytes) + " do not fit");
  }
  identity->extent_bytes = extent_bytes;
  identity->extent_count =
      static_cast<uint32_t>(std::min(data_bytes / extent_bytes, format::kMaxExtentCount));
  return Status::Ok();
}

Status CheckFree(const io::BlockDevice& device, bool overwrite, uint64_t store_id, bool* foreign) {
  *foreign = false;
  if (overwrite) return Status::Ok();
  DeviceIdentity found;
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

Status WriteHeaderBlock(const io::File& file, const DeviceIdentity& identity) {
  Region block;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kDeviceHeaderBytes, /*huge_pages=*/false, &block));
  DeviceHeader header{};
  header.magic = format::kDeviceMagic;
  header.format_version = format::kDeviceVersion;
  header.path_index = identity.path_index;
  header.path_count = identity.path_count;
  header.extent_count = identity.extent_count;
  header.extent_bytes = identity.extent_bytes;
  header.store_id = identity.store_id;
  header.checksum = ChecksumOf(header);
  std::memcpy(block.data(), &header, sizeof(header));
  return file.Write(block.data(), block.size(), 0);
}

Status WriteDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& identity) {
  constexpr uint64_t kBytes = format::kDeviceDataOffset;
  const uint64_t zeroed_bytes = std::min(kBytes, device.size_bytes);
  Region zeros;
  ENGINE_RACE_RETURN_IF_ERROR(Region::Allocate(zeroed_bytes, /*huge_pages=*/false, &zeros));
  for (const uint64_t offset : {uint64_t{0}, device.size_bytes - zeroed_bytes}) {
    ENGINE_RACE_RETURN_IF_ERROR(device.file.Write(zeros.data(), zeros.size(), offset));
  }
  ENGINE_RACE_RETURN_IF_ERROR(WriteHeaderBlock(device.file, identity));
  return device.file.Sync();
}

Status ReadDeviceHeader(const io::File& file, DeviceIdentity* identity) {
  Region block;
  ENGINE_RACE_RETURN_IF_ERROR(
      Region::Allocate(format::kDeviceHeaderBytes, /*huge_pages=*/false, &block));
  ENGINE_RACE_RETURN_IF_ERROR(file.Read(block.data(), block.size(), 0));
  DeviceHeader header;
  std::memcpy(&header, block.data(), sizeof(header));
  if (header.magic != format::kDeviceMagic) return Status::NotFound();
  if (header.checksum != ChecksumOf(header)) {
    return Status::Corruption(file.name() + ": the checksum of its device header does not match");
  }
  if (header.format_version != format::kDeviceVersion) {
    return Status::NotSupported(file.name() + ": device format version " +
                                std::to_string(header.format_version));
  }
  if (!std::has_single_bit(header.extent_bytes) || header.extent_bytes < kMinStripeUnitBytes ||
      header.extent_bytes > kMaxStripeUnitBytes || header.extent_count == 0 ||
      header.extent_count > format::kMaxExtentCount) {
    return Status::NotSupported(file.name() + ": a device cut up in a way that cannot be used");
  }
  identity->store_id = header.store_id;
  identity->path_index = header.path_index;
  identity->path_count = header.path_count;
  identity->extent_count = header.extent_count;
  identity->extent_bytes = header.extent_bytes;
  return Status::Ok();
}

Status CheckDeviceHeader(const io::BlockDevice& device, const DeviceIdentity& expected,
                         Code wrong) {
  DeviceIdentity found;
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
  if (!(found == expected)) {
    return Status::Corruption("the device's header and the store's differ");
  }
  if (device.size_bytes < expected.OffsetOf(expected.extent_count)) {
    return Status::Corruption("the device has shrunk to " + std::to_string(device.size_bytes) +
                              " bytes");
  }
  return Status::Ok();
}

}  // namespace engine_race
