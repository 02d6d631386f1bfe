// The opponent of lookups in memory: RocksDB with the same records, all of them in memory.
//
// Two files implement this: rocks_points.cc with the library, rocks_points_missing.cc without it.
// The Makefile links the one that this machine can build, only into the benches.
//
// Opening is not thread-safe; answers may run on any threads.
#ifndef HARNESS_OPPONENTS_ROCKS_POINTS_H_
#define HARNESS_OPPONENTS_ROCKS_POINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"
#include "harness/load/l1_lookups.h"

namespace harness {

// How RocksDB keeps the records.
enum class RocksForm {
  kLru,         // block-based tables, the LRU cache
  kHyperClock,  // block-based tables, the HyperClock cache
  kPlain,       // tables in mapped files, without blocks
};

class RocksPoints {
 public:
  virtual ~RocksPoints() = default;

  virtual MakeL1Answer Gets() const = 0;
  // Version, settings, and the data in memory.
  virtual nlohmann::json Describe() const = 0;
};

// A database in the new directory `dir` with these records, all of them read once.
using MakeRocksPointsFn =
    std::function<engine_race::Status(const std::string& dir, const L1Records& records,
                                      RocksForm form, std::unique_ptr<RocksPoints>* points)>;
// Empty where the library is missing.
MakeRocksPointsFn RocksPointsMaker();

}  // namespace harness

#endif  // HARNESS_OPPONENTS_ROCKS_POINTS_H_
