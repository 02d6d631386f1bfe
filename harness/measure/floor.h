// The rates of the device below a store, measured with fio, for the report of a run. With them
// figures of two machines can be compared.
#ifndef HARNESS_MEASURE_FLOOR_H_
#define HARNESS_MEASURE_FLOOR_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"

namespace engine_race::harness {

// *floor becomes {"random_read_ops_per_s", "sequential_read_bytes_per_s",
// "sequential_write_bytes_per_s"}. Takes as long as about nine passes over `bytes`, and needs
// `bytes` of space in `dir`. kNotSupported without fio, kIOError when it fails.
Status MeasureFloor(const std::string& dir, uint64_t bytes, nlohmann::json* floor);

}  // namespace engine_race::harness

#endif  // HARNESS_MEASURE_FLOOR_H_
