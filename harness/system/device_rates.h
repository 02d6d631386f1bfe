// What the disk below a directory gives to reads, for a report about a machine.
#ifndef HARNESS_SYSTEM_DEVICE_RATES_H_
#define HARNESS_SYSTEM_DEVICE_RATES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace harness {

// {"read_iops", "read_bytes_per_second", and the jobs of fio that gave them}; null without fio.
// Takes as long as some seven reads of `bytes`, which is also what it needs of the disk.
nlohmann::json MeasureDeviceRates(const std::string& dir, uint64_t bytes);

}  // namespace harness

#endif  // HARNESS_SYSTEM_DEVICE_RATES_H_
