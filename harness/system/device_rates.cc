#include "harness/system/device_rates.h"

#include <nlohmann/json.hpp>

#include "harness/system/fio_runner.h"

namespace harness {

nlohmann::json MeasureDeviceRates(const std::string& dir, uint64_t bytes) {
  if (!FioRunner::Available()) return nullptr;
  FioRunner fio(dir);
  const FioResult points = fio.RandomRead(bytes);
  const FioResult scan = fio.BestScan(bytes);
  if (!points.ok || !scan.ok) return {{"error", points.ok ? scan.error : points.error}};
  return {{"read_iops", points.ops_per_second},
          {"read_iops_job", points.job},
          {"read_bytes_per_second", scan.bytes_per_second},
          {"read_bytes_job", scan.job}};
}

}  // namespace harness
