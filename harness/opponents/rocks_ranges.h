// The opponent of the short ranges: RocksDB with the same keys, all of it in its block cache.
//
// Two files implement this: rocks_ranges.cc with the library, rocks_ranges_missing.cc without it.
// The Makefile links the one that this machine can build, only into bin/claims scan. Not
// thread-safe.
#ifndef HARNESS_OPPONENTS_ROCKS_RANGES_H_
#define HARNESS_OPPONENTS_ROCKS_RANGES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "engine_race/base/status.h"
#include "harness/load/short_ranges.h"

namespace harness {

class RocksRanges {
 public:
  virtual ~RocksRanges() = default;

  // Runs queries for `seconds`; each refreshes the iterator to the latest state. A count of 0 means
  // a failure.
  virtual QueryRun Run(uint64_t seed, double seconds) = 0;

  // Version, settings, and the data in the block cache.
  virtual nlohmann::json Describe() const = 0;
};

// Makes a database in the new directory `dir` with these ascending keys and values of eight bytes.
// Reads all of it into its block cache.
using MakeRocksFn = std::function<engine_race::Status(
    const std::string& dir, std::span<const uint64_t> keys, std::unique_ptr<RocksRanges>* ranges)>;
// Empty where the library is missing.
MakeRocksFn RocksMaker();

}  // namespace harness

#endif  // HARNESS_OPPONENTS_ROCKS_RANGES_H_
