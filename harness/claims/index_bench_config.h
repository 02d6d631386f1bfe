// The sizes of the index bench, and what its parts share while it runs.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_BENCH_CONFIG_H_
#define HARNESS_CLAIMS_INDEX_BENCH_CONFIG_H_

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/base/parallel.h"
#include "harness/load/store_basics.h"
#include "harness/measure/claim_rounds.h"
#include "harness/opponents/rocks.h"

namespace harness {

// The most disk space that the index takes for a record: its files take up to twice what they hold.
inline constexpr uint64_t kIndexBytesPerRecord = 40;
// A limit that no index of the bench comes to.
inline constexpr uint64_t kAnyIndexBytes = uint64_t{1} << 60;

struct IndexBenchConfig {
  std::string dir;  // existing; each part makes its store below it and removes it
  uint32_t bucket_count = 1024;
  uint32_t thread_count = 0;  // that build the index; 0: one per available CPU
  uint32_t round_count = 5;
  double seconds = 3;  // of each timed run
  uint64_t seed = 1;

  // Keys of the stores that are filled without values.
  uint64_t key_count = 64000000;
  uint64_t small_key_count = 32000000;   // of reopen_growth
  uint64_t large_key_count = 512000000;  // of reopen_growth
  uint64_t billion_key_count = 1000000000;
  uint64_t stalled_key_count = 16000000;    // of writer_stall_ratio
  uint64_t amplified_key_count = 20000000;  // of index_write_amplification

  uint64_t killed_write_count = 1000000;  // past the root, before the writer is killed
  uint64_t stall_write_count = 500000;    // of each run
  uint64_t amplified_write_count = 6000000;
  uint64_t lookup_count = 4000000;          // of each timed run in memory
  uint64_t billion_lookup_count = 1000000;  // of each kind
  // Records of stores with values. The first is reduced to what the disk has room for.
  uint64_t paged_record_count = 10000000;
  uint64_t rocks_record_count = 6000000;
  uint64_t race_records_per_thread = 20000;

  uint64_t memory_budget_bytes = uint64_t{2} << 30;  // of the store of billion_key_count keys
  uint64_t device_read_bytes = uint64_t{2} << 30;    // that fio reads to measure its rate
  uint32_t reader_count = 64;
  uint32_t writer_count = 8;
  uint32_t beside_reader_count = 2;  // that read while others write
  // The callers of MultiRead, the keys of each call, and the store's workers.
  uint32_t caller_count = 2;
  uint32_t keys_per_call = 1024;
  uint32_t worker_count = 1;

  // The opponent; empty where there is none, and then its claim is not measured.
  MakeRocksRecordsFn make_rocks;
  // Names of claims.
  std::set<std::string> wanted;
  // A run that only shows that everything works: a figure that cannot be measured is no error.
  bool is_smoke = false;
};

// Of the stores that are filled without values.
inline engine_race::Options FilledStoreOptions(const IndexBenchConfig& config) {
  engine_race::Options options = QuietOptions();
  options.bucket_count = config.bucket_count;
  options.file_count = std::min(options.file_count, options.bucket_count);
  options.build_thread_count =
      config.thread_count != 0 ? config.thread_count : engine_race::AvailableCpuCount();
  return options;
}

struct IndexBenchRun {
  const IndexBenchConfig& config;
  ClaimRounds* rounds;
  nlohmann::json* about;             // of each part: what was measured
  std::vector<std::string>* errors;  // that do not end a part

  bool Wants(const char* claim) const { return config.wanted.contains(claim); }
  // An error of a run that is not a smoke run.
  void Complain(const std::string& what) const {
    if (!config.is_smoke) errors->push_back(what);
  }
  std::string store_dir() const { return config.dir + "/index-store"; }
};

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_BENCH_CONFIG_H_
