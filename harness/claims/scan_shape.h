// The shape of a comparison of scans.
#ifndef HARNESS_CLAIMS_SCAN_SHAPE_H_
#define HARNESS_CLAIMS_SCAN_SHAPE_H_

#include <cstdint>
#include <string>

namespace engine_race::harness {

struct ScanShape {
  std::string dir;  // new stores are made in here; the caller removes them
  uint64_t key_count = 0;
  uint32_t round_count = 1;
  double seconds = 1;  // of each timed run
  uint64_t seed = 1;
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SCAN_SHAPE_H_
