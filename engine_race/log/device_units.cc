#include "engine_race/log/device_units.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace engine_race {

uint64_t DeviceUnits::Find(uint32_t bucket, uint64_t local_unit) const {
  uint64_t offset = 0;
  if (!table_.Find(bucket, ExtentOf(local_unit), &offset)) return kNowhere;
  return offset + InExtent(local_unit);
}

Status DeviceUnits::FindToWrite(uint32_t bucket, uint64_t local_unit, uint64_t* offset) {
  ENGINE_RACE_RETURN_IF_ERROR(table_.FindOrAllocate(bucket, ExtentOf(local_unit), offset));
  *offset += InExtent(local_unit);
  return Status::Ok();
}

std::string DeviceUnits::Describe() const {
  const DeviceIdentity& identity = table_.identity();
  return "raw device, " + std::to_string(table_.given_count()) + " of " +
         std::to_string(identity.extent_count) + " extents of " +
         std::to_string(identity.extent_bytes) + " bytes";
}

Status PlanDevice(const StoreIdentity& identity, size_t index, const io::BlockDevice& device,
                  DeviceIdentity* planned) {
  planned->store_id = identity.store_id;
  planned->path_index = static_cast<uint32_t>(index);
  planned->path_count = static_cast<uint32_t>(identity.paths.size());
  return PlanExtents(device.size_bytes, identity.geometry, planned);
}

Status MakeDevice(int store_dir_fd, const StoreIdentity& identity, size_t index, mode_t file_mode,
                  ValuePath* path) {
  DeviceIdentity planned;
  ENGINE_RACE_RETURN_IF_ERROR(PlanDevice(identity, index, path->device, &planned));
  auto units = std::make_unique<DeviceUnits>(identity.geometry);
  ENGINE_RACE_RETURN_IF_ERROR(units->table()->Create(store_dir_fd, planned, file_mode));
  ENGINE_RACE_RETURN_IF_ERROR(WriteDeviceHeader(path->device, planned));
  path->units = std::move(units);
  return Status::Ok();
}

namespace {

// A store that was killed holds its devices until the kernel has taken its rings apart. That is
// some time after the process is gone and the store's lock is free.
Status OpenWhenFree(const std::string& name, bool read_only, io::BlockDevice* device) {
  constexpr auto kStep = std::chrono::milliseconds(10);
  constexpr auto kLongest = std::chrono::seconds(2);
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    bool in_use = false;
    Status opened = io::BlockDevice::Open(name, read_only, device, &in_use);
    if (!in_use || std::chrono::steady_clock::now() - began > kLongest) return opened;
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace

Status OpenDevice(int store_dir_fd, const StoreIdentity& identity, size_t index, bool read_only,
                  Code wrong, ValuePath* path) {
  ENGINE_RACE_RETURN_IF_ERROR(OpenWhenFree(path->name, read_only, &path->device));
  auto units = std::make_unique<DeviceUnits>(identity.geometry);
  ENGINE_RACE_RETURN_IF_ERROR(units->table()->Open(store_dir_fd, static_cast<uint32_t>(index),
                                                   identity.store_id, read_only));
  const DeviceIdentity& expected = units->table()->identity();
  if (expected.extent_bytes < identity.geometry.value_unit_bytes()) {
    return Status::Corruption("the device's extents are smaller than a stripe unit");
  }
  ENGINE_RACE_RETURN_IF_ERROR(CheckDeviceHeader(path->device, expected, wrong));
  ENGINE_RACE_RETURN_IF_ERROR(units->table()->Load());
  path->units = std::move(units);
  return Status::Ok();
}

}  // namespace engine_race
