// The claims about building and searching the index in memory, beside what the standard library
// does; and how long the building store takes to open.
//
// The compared runs alternate in short rounds on the same data. The library's sort and search run
// in ordinary memory, as std::vector would give them, and once more in huge pages. The difference
// is the gain from huge pages, which the engine asks for.
//
// Not thread-safe.
#ifndef HARNESS_CLAIMS_INDEX_ARRAYS_H_
#define HARNESS_CLAIMS_INDEX_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine_race/base/memory.h"
#include "engine_race/base/options.h"
#include "engine_race/base/status.h"
#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "harness/claims/index_bench_config.h"
#include "harness/load/index_keys.h"

namespace harness {

inline constexpr char kRebuildSpeedup[] = "rebuild_speedup";
inline constexpr char kLookupSpeedup[] = "lookup_speedup";
inline constexpr char kOpenRatio[] = "open_ratio";
inline constexpr char kPeakRss[] = "peak_rss_64m_mib";

// The 12 bytes a key that the baselines sort and search.
struct __attribute__((packed)) PackedEntry {
  uint64_t key;
  uint32_t slot;

  bool operator<(const PackedEntry& other) const {
    return key != other.key ? key < other.key : slot < other.slot;
  }
};
static_assert(sizeof(PackedEntry) == 12);

class IndexArrays {
 public:
  explicit IndexArrays(const IndexBenchRun& run);

  engine_race::Status Run();

 private:
  engine_race::Status Load();
  engine_race::Status MeasureRebuild();
  engine_race::Status MeasureLookup();
  // Opens the store in a child process, which builds the index.
  engine_race::Status MeasureOpen();

  // Seconds to copy the entries of every bucket into fresh memory and sort them.
  engine_race::Status SortPacked(bool huge_pages, engine_race::Region* packed, double* seconds);
  engine_race::Status BuildParts(double* seconds, uint64_t* memory_bytes);
  // Nanoseconds a key.
  double SearchPacked(const engine_race::Region& packed, const std::vector<uint64_t>& keys,
                      uint64_t* slot_sum) const;
  std::vector<uint64_t> DrawKeys(size_t count) const;
  const engine_race::format::KeyEntry* RawBucket(uint32_t bucket) const;
  PackedEntry* PackedBucket(const engine_race::Region& packed, uint32_t bucket) const;

  const IndexBenchRun& run_;
  const uint64_t key_count_;
  const uint32_t bucket_count_;
  const engine_race::Options options_;
  const IndexKeys keys_;
  std::unique_ptr<engine_race::BucketLog> log_;
  // The key entries of all buckets, one after another.
  engine_race::Region raw_;
  std::vector<uint64_t> first_entries_;
  engine_race::Region packed_;
  engine_race::Region packed_in_huge_pages_;
};

// Runs IndexArrays.
engine_race::Status MeasureArrays(const IndexBenchRun& run);

}  // namespace harness

#endif  // HARNESS_CLAIMS_INDEX_ARRAYS_H_
