// The stripe units of a path that is a raw block device: its extent table, seen as a UnitMap.
//
// Thread-safe, as UnitMap says.
#ifndef ENGINE_RACE_LOG_DEVICE_UNITS_H_
#define ENGINE_RACE_LOG_DEVICE_UNITS_H_

#include <cstdint>
#include <string>

#include "engine_race/base/status.h"
#include "engine_race/log/device_header.h"
#include "engine_race/log/extents.h"
#include "engine_race/log/manifest.h"
#include "engine_race/log/value_files.h"

namespace engine_race {

class DeviceUnits final : public UnitMap {
 public:
  explicit DeviceUnits(const Geometry& geometry) : unit_bytes_(geometry.value_unit_bytes()) {}

  uint64_t Find(uint32_t bucket, uint64_t local_unit) const override;
  Status FindToWrite(uint32_t bucket, uint64_t local_unit, uint64_t* offset) override;
  Status Flush() override { return table_.Flush(); }
  // "raw device, 12 of 4096 extents of 65536 bytes"
  std::string Describe() const override;

  ExtentTable* table() { return &table_; }

 private:
  uint32_t ExtentOf(uint64_t local_unit) const {
    return static_cast<uint32_t>(local_unit * unit_bytes_ / table_.identity().extent_bytes);
  }
  uint64_t InExtent(uint64_t local_unit) const {
    return local_unit * unit_bytes_ % table_.identity().extent_bytes;
  }

  ExtentTable table_;
  const uint64_t unit_bytes_;
};

// How the device of path `index` of a new store will be cut up.
Status PlanDevice(const StoreIdentity& identity, size_t index, const io::BlockDevice& device,
                  DeviceIdentity* planned);

// Makes the extent table of a new store and then the device's header, both durable; sets
// path->units.
Status MakeDevice(int store_dir_fd, const StoreIdentity& identity, size_t index, mode_t file_mode,
                  ValuePath* path);

// Opens a device of a store that exists, with its table; sets path->units. `wrong` is the code for
// what is not the store's own.
Status OpenDevice(int store_dir_fd, const StoreIdentity& identity, size_t index, bool read_only,
                  Code wrong, ValuePath* path);

}  // namespace engine_race

#endif  // ENGINE_RACE_LOG_DEVICE_UNITS_H_
