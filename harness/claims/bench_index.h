// Measures the index: how fast it is built and searched beside what the standard library does, and
// how long a store takes to open.
//
// The compared runs alternate in short rounds on the same data, and a figure is the median of its
// rounds. The library's sort and search run in ordinary memory, as std::vector would give them, and
// once more in huge pages. The difference is the gain from huge pages, which the engine asks for.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_BENCH_INDEX_H_
#define HARNESS_CLAIMS_BENCH_INDEX_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "harness/measure/claim_rounds.h"

namespace harness {

struct IndexBenchConfig {
  // An existing directory; the store goes into a new one below it.
  std::string dir;
  uint64_t key_count = 64000000;
  uint32_t bucket_count = 1024;
  uint32_t thread_count = 0;  // 0: one per available CPU
  uint32_t round_count = 3;
  uint64_t seed = 1;
  bool is_smoke = false;
};

// The 12 bytes a key that the baselines sort and search.
struct __attribute__((packed)) PackedEntry {
  uint64_t key;
  uint32_t slot;

  bool operator<(const PackedEntry& other) const {
    return key != other.key ? key < other.key : slot < other.slot;
  }
};
static_assert(sizeof(PackedEntry) == 12);

class IndexBench {
 public:
  explicit IndexBench(IndexBenchConfig config);
  // Removes the store.
  ~IndexBench();

  // False when something failed: error() says what.
  bool Run();
  const std::string& error() const { return error_; }
  // Claims, what they were taken from, settings and machine.
  nlohmann::json ToJson() const;
  std::string ToTable() const { return rounds_.ToTable(); }

 private:
  engine_race::Status Fill();
  engine_race::Status Load();
  engine_race::Status MeasureRebuild();
  engine_race::Status MeasureLookup();
  // Opens the store in a child process, after dropping the page cache.
  engine_race::Status MeasureOpen();

  // Seconds to copy the entries of every bucket into fresh memory and sort them.
  engine_race::Status SortPacked(bool huge_pages, engine_race::Region* packed, double* seconds);
  engine_race::Status BuildParts(double* seconds, uint64_t* memory_bytes);
  // Nanoseconds a key.
  double SearchPacked(const engine_race::Region& packed, const std::vector<uint64_t>& keys,
                      uint64_t* slot_sum) const;
  std::vector<uint64_t> DrawKeys(size_t count) const;
  PackedEntry* PackedBucket(const engine_race::Region& packed, uint32_t bucket) const;

  const IndexBenchConfig config_;
  const std::string store_dir_;
  engine_race::Options options_;
  std::unique_ptr<engine_race::BucketLog> log_;
  // The key entries of all buckets, one after another.
  engine_race::Region raw_;
  std::vector<uint64_t> first_entries_;
  engine_race::Region packed_;
  engine_race::Region packed_in_huge_pages_;
  ClaimRounds rounds_;
  std::string error_;
};

// The main function of MeasureOpen's child process: opens the store, reads `key`, prints JSON.
int OpenChildMain(const std::string& store_dir, uint64_t key);

}  // namespace harness

#endif  // HARNESS_CLAIMS_BENCH_INDEX_H_
