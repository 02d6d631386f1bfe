#include "harness/measure/floor.h"

#include <nlohmann/json.hpp>

#include "harness/measure/progress.h"
#include "harness/system/fio_runner.h"

namespace engine_race::harness {

Status MeasureFloor(const std::string& dir, uint64_t bytes, nlohmann::json* floor) {
  if (!FioRunner::Available()) return Status::NotSupported("there is no fio");
  constexpr uint64_t kReadBytes = 4096;
  const StatusLine line("measuring the device ...");
  FioRunner fio(dir);
  const FioResult write = fio.BestWrite(bytes);
  const FioResult read = fio.RandomRead(bytes, kReadBytes, bytes / kReadBytes);
  const FioResult scan = fio.BestScan(bytes);
  for (const FioResult* const result : {&write, &read, &scan}) {
    if (!result->ok) return Status::IOError("fio: " + result->error);
  }
  *floor = {{"random_read_ops_per_s", read.ops_per_second},
            {"sequential_read_bytes_per_s", scan.bytes_per_second},
            {"sequential_write_bytes_per_s", write.bytes_per_second}};
  return Status::Ok();
}

}  // namespace engine_race::harness
