// The read rates of the disk below a directory, for a report about a machine.
#ifndef HARNESS_SYSTEM_DEVICE_RATES_H_
#define HARNESS_SYSTEM_DEVICE_RATES_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace harness {

// {"read_iops", "read_bytes_per_second", and the jobs of fio that measured them}; null without fio.
// Takes as long as about seven reads of `bytes`, and needs `bytes` of disk space.
nlohmann::json MeasureDeviceRates(const std::string& dir, uint64_t bytes);

}  // namespace harness

#endif  // HARNESS_SYSTEM_DEVICE_RATES_H_
