// RocksDB as the opponent of single claims, with the same records as the engine's side.
//
// The functions that make one are weak: where the library is missing, they are not linked, and the
// makers are empty. Making one is not thread-safe, nor are ranges. Lookups may run on any threads.
#ifndef HARNESS_OPPONENTS_ROCKS_H_
#define HARNESS_OPPONENTS_ROCKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "engine_race/base/status.h"
#include "harness/kv/kv_store.h"
#include "harness/load/l1_lookups.h"
#include "harness/load/read_loops.h"

namespace engine_race::harness {

class RocksData {
 public:
  virtual ~RocksData() = default;

  // Version, settings, and the data in memory or in the cache.
  virtual nlohmann::json Describe() const = 0;
};

// Lookups in memory.

// How RocksDB keeps the records.
enum class RocksForm {
  kLru,         // block-based tables, the LRU cache
  kHyperClock,  // block-based tables, the HyperClock cache
  kPlain,       // tables in mapped files, without blocks
};

class RocksPoints : public RocksData {
 public:
  virtual MakeL1Answer Gets() const = 0;
};

// A database in the new directory `dir` with these records, all of them read once.
[[gnu::weak]] Status MakeRocksPoints(const std::string& dir, const L1Records& records,
                                     RocksForm form, std::unique_ptr<RocksPoints>* points);
using MakeRocksPointsFn = std::function<decltype(MakeRocksPoints)>;
inline MakeRocksPointsFn RocksPointsMaker() { return &MakeRocksPoints; }

// Short ranges.

class RocksRanges : public RocksData {
 public:
  // Runs queries for `seconds`; each refreshes the iterator to the latest state. A count of 0 means
  // a failure.
  virtual QueryRun Run(uint64_t seed, double seconds) = 0;
};

// Makes a database in the new directory `dir` with these ascending keys and values of eight bytes.
// Reads all of it into its block cache.
[[gnu::weak]] Status MakeRocksRanges(const std::string& dir, std::span<const uint64_t> keys,
                                     std::unique_ptr<RocksRanges>* ranges);
using MakeRocksFn = std::function<decltype(MakeRocksRanges)>;
inline MakeRocksFn RocksMaker() { return &MakeRocksRanges; }

// Records that are read directly, within the memory of the engine's side.

struct RocksRecordsShape {
  uint64_t record_count = 0;
  // For index, filters and data blocks together. Values in blob files are read from the disk.
  uint64_t cache_bytes = 0;
  std::function<uint64_t(uint64_t index)> key_at;
  // Fills the bytes of a key's value.
  std::function<void(uint64_t key, char* value)> fill;
  // Values in blob files are kept in the cache, too.
  bool caches_values = false;
  // Values lie in the tables, in order of key, instead of in blob files.
  bool values_in_tables = false;
  uint32_t value_bytes = kValueBytes;
};

class RocksRecords : public RocksData {
 public:
  virtual Status Get(uint64_t key, std::string* value) = 0;
  // At the state as of its making. It may not outlive this.
  virtual std::unique_ptr<KvCursor> NewCursor() = 0;
};

// A database in the new directory `dir` with these records.
[[gnu::weak]] Status MakeRocksRecords(const std::string& dir, const RocksRecordsShape& shape,
                                      std::unique_ptr<RocksRecords>* made);
using MakeRocksRecordsFn = std::function<decltype(MakeRocksRecords)>;
inline MakeRocksRecordsFn RocksRecordsMaker() { return &MakeRocksRecords; }

}  // namespace engine_race::harness

#endif  // HARNESS_OPPONENTS_ROCKS_H_
