// The opponent of reads from disk: RocksDB with the same records, values in blob files, within the
// same memory.
//
// Two files implement this: rocks_records.cc with the library, rocks_records_missing.cc without it.
// The Makefile links the one that this machine can build, only into the benches.
//
// Making one is not thread-safe; Get is.
#ifndef HARNESS_OPPONENTS_ROCKS_RECORDS_H_
#define HARNESS_OPPONENTS_ROCKS_RECORDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine_race/base/status.h"

namespace harness {

struct RocksRecordsShape {
  uint64_t record_count = 0;
  // For index, filters and data blocks together. Values are read from the disk.
  uint64_t cache_bytes = 0;
  std::function<uint64_t(uint64_t index)> key_at;
  // Fills the 4096 bytes of a key's value.
  std::function<void(uint64_t key, char* value)> fill;
};

class RocksRecords {
 public:
  virtual ~RocksRecords() = default;

  virtual engine_race::Status Get(uint64_t key, std::string* value) = 0;
  // Version, settings, and what the cache holds.
  virtual nlohmann::json Describe() const = 0;
};

// A database in the new directory `dir` with these records.
using MakeRocksRecordsFn = std::function<engine_race::Status(
    const std::string& dir, const RocksRecordsShape& shape, std::unique_ptr<RocksRecords>* made)>;
// Empty where the library is missing.
MakeRocksRecordsFn RocksRecordsMaker();

}  // namespace harness

#endif  // HARNESS_OPPONENTS_ROCKS_RECORDS_H_
