// The bench about the index: its settings, and its parts over several files.
#ifndef HARNESS_CLAIMS_INDEX_BENCH_H_
#define HARNESS_CLAIMS_INDEX_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine_race/base/options.h"
#include "engine_race/log/geometry.h"
#include "harness/claims/bench.h"
#include "harness/claims/index_stores.h"
#include "harness/opponents/rocks.h"

namespace engine_race::harness {

// Does some lookups and adds the slots that it has found.
using IndexLookups = std::function<Status(uint64_t* slot_sum)>;

// The figures of the sides of claims about reads with a paged index.
inline constexpr char kDeviceRate[] = "device: random reads a second";
inline constexpr char kPagedRate[] = "paged reads a second";
inline constexpr char kPagedManyRate[] = "paged reads a second, MultiRead";
inline constexpr char kHalfPagedRate[] = "paged reads a second, half in memory";
inline constexpr char kOurRate[] = "beside RocksDB: paged reads a second";
inline constexpr char kRocksRate[] = "RocksDB: reads a second";
// Of claims about the latency of reads.
inline constexpr char kFirstTail[] = "P99.9 of a read in the first second, ns";
inline constexpr char kBareFirstTail[] = "bare: P99.9 of a read in the first second, ns";
inline constexpr char kLaterTail[] = "P99.9 of a read, ns";
inline constexpr char kBareLaterTail[] = "bare: P99.9 of a read, ns";

class IndexBench final : public Bench {
 public:
  IndexBench() : Bench("index", "the index on disk and in memory, beside the device and RocksDB") {}

 private:
  friend class IndexArrays;
  friend class ResidentPair;
  friend class PagedStore;

  std::vector<BenchPart> Parts() override;

  // Opening a store whose index lies on disk: beside building it, after a kill, with many more
  // keys.
  Status MeasureReopening();
  Status MeasureReopenGrowth();
  // A race with the files of the index beside one without them.
  Status MeasureRaceCost();
  // A store of a billion keys that has little memory.
  Status MeasureBillion();
  // Latencies of writes beside merges, with a paged and with a flat index in turn.
  Status MeasureWriterStalls();
  // The bytes of index on disk that writes cause.
  Status MeasureWriteAmplification();
  // Reads whose index does not fit the memory: beside the device's random reads, and beside
  // RocksDB.
  Status MeasurePaged();
  Status MeasurePagedVsRocks();
  // Latencies of single reads by many threads of a store that was just opened, beside bare preads.
  Status MeasureTails();
  // Builds and lookups in memory, beside what the standard library does, and how long the building
  // store takes to open.
  Status MeasureArrays();
  // Lookups in an index that fits its memory, beside flat arrays with the same keys.
  Status MeasureResident();

  std::string store_dir() const { return dir() + "/store"; }
  // Of the stores that are filled without values.
  Options FilledOptions() const;
  FilledStore StoreOf(uint64_t key_count, const char* suffix = "") const {
    return {store_dir() + suffix,
            FilledOptions(),
            key_count,
            {.writer_count = writer_count_, .seed = seed_}};
  }
  // Finds the budget under which the index gets `wanted_bytes`, and notes it for the part `name`.
  // Complains if no budget does; the nearest one is taken then.
  Status ChooseBudget(const std::string& name, uint64_t wanted_bytes,
                      const IndexBytesFn& bytes_under, uint64_t* budget_bytes);
  // Notes the nanoseconds of a lookup. Those of the same keys must find the same slots.
  Status TimeLookups(const std::string& figure, uint64_t key_count, const IndexLookups& lookups,
                     uint64_t* expected_sum);
  // Notes the rate of random reads of 4 KiB from the store's value files, by fio.
  Status ReadDevice(uint64_t record_count, const std::string& figure) {
    return NoteFioReads(store_dir(), record_count, "psync", seconds_, figure, figure + ", CPU ns");
  }

  Count32 bucket_count_{this, "buckets",   1024,
                        64,   "--buckets", "of stores that are filled without values"};
  Count32 thread_count_{this, "", 0, kSame, "--threads", "that build; 0: one per available CPU",
                        true};
  Count32 round_count_{this, "rounds", 5, 1, "--rounds", "of each comparison"};
  Real seconds_{this, "seconds", 3, 0.05, "--seconds", "of each timed run"};
  Count seed_{this, "seed", 1, kSame, "--seed", "", true};
  // Keys of the stores that are filled without values.
  Count key_count_{this, "keys", 64000000, 100000, "--keys", "of reopening, lookups and builds"};
  Count small_key_count_{this, "small_keys", 32000000, 20000, "--small-keys", "of reopen_growth"};
  Count large_key_count_{this, "large_keys", 512000000, 100000, "--large-keys", "of reopen_growth"};
  Count billion_key_count_{this,   "billion_keys",   1000000000,
                           200000, "--billion-keys", "of the claims about a billion keys"};
  Count stalled_key_count_{this,  "stalled_keys",   16000000,
                           20000, "--stalled-keys", "of writer_stall_ratio"};
  Count amplified_key_count_{this,  "amplified_keys",   20000000,
                             50000, "--amplified-keys", "of index_write_amplification"};
  Count killed_write_count_{this, "killed_writes",   1000000,
                            1000, "--killed-writes", "before the writer is killed"};
  Count stall_write_count_{this, "stall_writes",   500000,
                           2000, "--stall-writes", "of each run of writer_stall_ratio"};
  Count amplified_write_count_{this, "amplified_writes",   6000000,
                               4000, "--amplified-writes", "of index_write_amplification"};
  Count lookup_count_{this, "lookups", 4000000, 20000};                 // of each run in memory
  Count billion_lookup_count_{this, "billion_lookups", 1000000, 2000};  // of each kind
  Count paged_record_count_{
      this, "paged_records",   10000000,
      8000, "--paged-records", "with values; reduced to what the disk has room for"};
  Count rocks_record_count_{this, "rocks_records",   6000000,
                            8000, "--rocks-records", "of paged_vs_rocksdb, with values"};
  Count tail_record_count_{this, "tail_records",   2000000,
                           3000, "--tail-records", "of read_p999, with values"};
  Real tail_seconds_{this, "tail_seconds", 4, 0.2, "--tail-seconds", "of each run of read_p999"};
  Count race_records_{this, "race_records_per_thread", 20000,
                      50,   "--race-records",          "of each thread of a race"};
  // Of the store of billion_key_count_ keys.
  Count memory_budget_bytes_{this, "memory_budget_bytes", uint64_t{2} << 30, kMinMemoryBudgetBytes};
  // That fio reads to measure its rate.
  Count device_read_bytes_{this, "", uint64_t{2} << 30, 4 << 20};
  Count32 reader_count_{this, "readers", 64, 8};
  Count32 writer_count_{this, "writers", 8};
  Count32 caller_count_{this, "multiread_callers", 2};
  Count32 keys_per_call_{this, "multiread_keys", 1024, 100};
  // The opponent; empty where there is none, and then its claim is not measured.
  const MakeRocksRecordsFn make_rocks_ = RocksRecordsMaker();
};

// The keys of stores of resident_lookup_ns_ratio.
enum class ResidentKeys {
  kUniform,     // spread evenly
  kClustered,   // stretches of 64 neighbouring keys, spread evenly
  kSequential,  // 0, 1, 2, ...
};

// How many keys of this kind each bucket gets: about `key_count` in all, and whole groups in each
// bucket. Sequential keys fill one bucket.
std::vector<uint64_t> ResidentCounts(const Geometry& geometry, ResidentKeys kind,
                                     uint64_t key_count);
// The key of a slot; ascending slots of sequential keys alone have ascending keys.
uint64_t ResidentKey(const Geometry& geometry, ResidentKeys kind, uint32_t bucket, uint64_t slot,
                     uint64_t seed);

}  // namespace engine_race::harness

#endif  // HARNESS_CLAIMS_INDEX_BENCH_H_
