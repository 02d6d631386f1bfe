// The settings of the bench about space, and some of its parts. Some of these compare an
// overwritten store with one that never was overwritten, dense keys with spread ones, and large
// buckets with small ones. The others measure what a store takes of its device, in little memory,
// and with few records.
#ifndef HARNESS_CLAIMS_SPACE_PROMISES_H_
#define HARNESS_CLAIMS_SPACE_PROMISES_H_

#include <cstdint>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/claims/bench.h"
#include "harness/claims/space_loads.h"

namespace engine_race::harness {

// The figures of the sides of claims about a device and about little memory.
inline constexpr char kOverwriteDeviceRate[] = "overwriting, to and from the device, MB/s";
inline constexpr char kFioMixRate[] = "fio with the same mix and sizes, MB/s";
inline constexpr char kDefaultStagingRate[] = "little memory, default staging, writes a second";
inline constexpr char kWrittenStagingRate[] = "little memory, staging with pwrite, writes a second";

// The bench about space, without the parts that bench_space.cc has.
class SpacePromises : public Bench {
 protected:
  SpacePromises()
      : Bench("space", "what overwritten stores take and write, and what reclaim costs") {}

  std::vector<BenchPart> PromiseParts();
  Options OptionsOf(Reclaim reclaim) const;

  Count data_bytes_{this,    "data_bytes", uint64_t{8} << 30,
                    8 << 20, "--data",     "values of a data set, as in 8GB"};
  Count32 pass_count_{this, "passes", 10, 2, "--passes", "how often a data set is overwritten"};
  Count32 thread_count_{this, "threads", 64, 4, "--threads", "that write"};
  Count32 round_count_{this, "rounds", 7, 1, "--rounds", "of turns that are compared"};
  Real seconds_{this, "seconds", 8, 0.1, "--seconds", "of a turn"};
  Real ramp_seconds_{this, "ramp_seconds",   4,
                     0.05, "--ramp_seconds", "before those of a turn, not measured"};
  Count32 precondition_passes_{
      this, "precondition_passes",   2,
      1,    "--precondition_passes", "of overwriting before the turns, for a steady state"};
  Real idle_seconds_{this, "idle_seconds",   60,
                     0.05, "--idle_seconds", "between deletions and their measurement"};
  Real sample_seconds_{this, "", 0.25, 0.02};
  Count memory_budget_bytes_{this,       "memory_budget_bytes", uint64_t{2} << 30, 64 << 20,
                             "--memory", "of each store"};
  Real read_rate_{this, "read_rate",   2000,
                  200,  "--read_rate", "reads a second of read_p99_under_reclaim"};
  Count32 read_thread_count_{this, "read_threads", 8, 2};
  Real write_rate_{this, "write_rate",   25000,
                   500,  "--write_rate", "writes a second beside these reads"};
  Count cost_bytes_{this,    "cost_bytes",  1 << 30,
                    2 << 20, "--cost_data", "values of a store of no_overwrite_cost"};
  Count32 cost_thread_count_{this, "cost_threads", 4};
  Count32 cost_round_count_{this, "cost_rounds", 21, 1, "--cost_rounds", "of no_overwrite_cost"};
  Count seed_{this, "seed", 1, kSame, "--seed", "", true};

 private:
  // Of the stores of these parts; each lies below its directory.
  SpaceShape PromiseShape() const;
  // A store that was overwritten and one that never was, of the same records.
  struct Pair {
    SpaceShape aged;
    SpaceShape fresh;
  };
  Status MakePair(const SpaceShape& shape, Pair* pair);
  // Fills a store and overwrites it, some times over.
  Status MakeAged(const SpaceShape& shape);
  // Overwrites drawn records of an open store, other ones in each call.
  Status Overwrite(const SpaceShape& shape, const WatchShape& watch, Store* store,
                   SpaceSamples* samples);
  // Overwrites an eighth of the records, so that reclaim has something to do.
  Status OverwriteSome(const SpaceShape& shape, Store* store);

  Status MeasureReopening();
  Status MeasureCheckpoints();
  Status MeasureIncrement();
  Status MeasureRanges();
  Status MeasureDenseKeys();
  Status MeasureBuckets();
  Status MeasureDevice();
  Status MeasureSmallMemory();
  Status MeasureSmallStores();

  uint64_t overwrite_count_ = 0;  // selects the records that are drawn

  Count promise_bytes_{
      this,    "promise_bytes",  uint64_t{4} << 30,
      4 << 20, "--promise_data", "values of a store of the claims from reopen_after_overwrites on"};
  Count32 promise_round_count_{this, "promise_rounds", 3, 1, "--promise_rounds", "of these claims"};
  Count large_bucket_records_{
      this, "large_bucket_records", 256 << 10,
      1024, "--large_bucket",       "records a bucket of reclaim_cpu_growth"};
  Count small_bucket_records_{this, "small_bucket_records", 2 << 10,
                              64,   "--small_bucket",       "records a bucket of its other side"};
  Count memory_limit_bytes_{this, "memory_limit_bytes", 128 << 20};
  Real limited_seconds_{this, "limited_seconds", 15, 0.5};
  Count limited_write_count_{this, "limited_write_count", 50000, 100};
  Count small_record_count_{this, "small_record_count", 100};
  Count small_store_count_{this, "small_store_count", 100,
                           2,    "--stores",          "with a hundred records each, open at once"};
};

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_SPACE_PROMISES_H_
