// The benchmarks by name, and the call that runs one of them over any store.
//
// Names and meanings are those of RocksDB's db_bench, of sysbench's select_random_ranges and of
// YCSB's core workloads. docs/bench.md has what each of them does. Record `number` of a store has
// the key KeyOfNumber(config, number). Its value is ValueMaker's for kBenchValueSeed, so every
// store that a benchmark has filled serves every other run.
//
// RunBenchmark is not thread-safe. It starts config.thread_count threads, or one more.
#ifndef HARNESS_BENCH_BENCHMARK_H_
#define HARNESS_BENCH_BENCHMARK_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/base/latency_histogram.h"
#include "engine_race/base/status.h"
#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

// Seed of ValueMaker: of every value that a benchmark writes or checks.
inline constexpr uint64_t kBenchValueSeed = 17;

// Which records YCSB's workloads take.
enum class Distribution {
  kUniform,
  kZipfian,  // exponent 0.99, frequent records scattered over the store
  kLatest,   // exponent 0.99, the newest record is the most frequent
};

// The keys of records 0, 1, 2, ... of all benchmarks but YCSB's, whose keys are always hashed.
enum class KeyLayout {
  kDense,   // 0, 1, 2, ..., as db_bench has them
  kSpread,  // evenly over all 64-bit keys, in order of their number
};

// Called about once a second by a thread of a run, with the seconds since its beginning and the
// operations done by then.
using OnSecondFn = std::function<void(double seconds, uint64_t operations)>;

struct BenchConfig {
  std::string benchmark;
  // Records of the store. Also the writes of all threads together, unless `writes` is given.
  uint64_t num = 1000000;
  // Operations of each thread in the other benchmarks; 0: `num`.
  uint64_t reads = 0;
  // Writes or deletions of all threads together; 0: `num`. WritesOf has the exceptions.
  uint64_t writes = 0;
  uint32_t thread_count = 1;
  uint32_t value_bytes = kValueBytes;  // as the store has them
  // When not 0, a benchmark without an end of its own runs for this long instead of for a count.
  double duration_seconds = 0;
  // When not 0, a run that takes longer is ended, and is not `finished`.
  double time_limit_seconds = 0;
  uint64_t seed = 1;
  KeyLayout key_layout = KeyLayout::kDense;
  // Steps after each seek of seekrandom and seekrandomwhilewriting.
  uint32_t seek_nexts = 0;
  uint32_t batch_size = 128;  // keys of a call of multireadrandom
  // Keys of a range; 0: 5 in select_random_ranges, 1 to 100 in ycsbe. In ycsbe it is the most.
  uint32_t range_size = 0;
  uint32_t range_count = 10;   // ranges of a query of select_random_ranges
  uint32_t read_percent = 90;  // of the operations of readrandomwriterandom
  // Operations a second of all threads; 0: as fast as they can. Latencies then count from the time
  // at which an operation should have begun.
  double rate = 0;
  // Writes a second of a fill or `overwrite`, of all threads together, and of the writer beside
  // readers; 0: as fast as they can. The lower one of `rate` and this holds for fills and
  // `overwrite`. Latencies count as with `rate`.
  double write_rate = 0;
  // Of YCSB; without a value each workload has its own.
  std::optional<Distribution> distribution;
  // Every value that is read must be one that a benchmark wrote under its key.
  bool checks_values = true;
  OnSecondFn on_second;
  uint64_t record_bytes() const { return RecordBytes(value_bytes); }
};

enum class OperationKind {
  kRead,
  kWrite,
  kDelete,
  kSeek,
  kScan,
  kReadModifyWrite,
  kUpdate,  // a write of YCSB to a record that is there; in updaterandom a read and a write
  kInsert,  // a write of YCSB that adds a record
};
inline constexpr size_t kOperationKindCount = 8;
// "read", "write", ...
std::string_view OperationKindName(OperationKind kind);

struct BenchSecond {
  double seconds = 0;       // from the beginning to the end of this second
  uint64_t operations = 0;  // within it
};

struct BenchResult {
  std::string benchmark;
  uint32_t thread_count = 0;
  uint64_t operations = 0;
  // Keys and values that the operations read or wrote.
  uint64_t bytes = 0;
  // Keys and values given to the store, those of a background writer included.
  uint64_t written_bytes = 0;
  // Lookups, and those of them that found a record.
  uint64_t lookup_count = 0;
  uint64_t found_count = 0;
  double seconds = 0;
  // The time of each thread, added up.
  double thread_seconds = 0;
  // False when the time limit, an interrupt or a failure ended the run.
  bool finished = false;
  CpuTimes cpu;
  // Of calls, by OperationKind; a call of multireadrandom is a batch. A run of scanall has none.
  std::array<LatencyHistogram, kOperationKindCount> latencies;
  std::vector<BenchSecond> timeline;
  // Calls by thread; the last is a background writer's. ReplayWrites needs them.
  std::vector<uint64_t> thread_calls;
  // Records of YCSB in the store at the end, when it was one of YCSB's.
  uint64_t ycsb_record_count = 0;

  double OperationsPerSecond() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
  // Of all kinds.
  LatencyHistogram Latency() const;
};

// The properties of a benchmark that are known before it runs.
struct BenchTraits {
  std::string_view name;
  bool is_fill = false;  // begins with a fresh store
  bool writes = false;
  bool is_ycsb = false;         // its records are those of ycsbload
  bool divides_writes = false;  // its writes, see WritesOf, are divided over the threads
  bool has_end = false;         // ends by itself: a duration does not apply
  bool syncs = false;           // each write is durable before it returns
  bool has_writer = false;      // one more thread overwrites, and is not counted
  // How many of 100 operations write. Call WritePercent, because a flag says it for
  // readrandomwriterandom.
  uint32_t write_percent = 0;
  bool inserts = false;  // the writes of this workload of YCSB add records
};

// The most records and threads of a run.
inline constexpr uint64_t kMaxBenchRecords = uint64_t{1} << 40;
inline constexpr uint32_t kMaxBenchThreads = 4096;
// Null for an unknown name.
const BenchTraits* FindBenchmark(std::string_view name);
std::vector<std::string> BenchmarkNames();

// The operations of each thread of a benchmark without `divides_writes`.
inline uint64_t ReadsOfThread(const BenchConfig& config) {
  return config.reads == 0 ? config.num : config.reads;
}

// The writes of all threads together in a benchmark with `divides_writes`. Without config.writes
// there are `num`, and in fillsync a thousandth of that, as in db_bench. A benchmark that writes
// each key once writes `num` at most, and ycsbload writes exactly `num`.
uint64_t WritesOf(const BenchConfig& config);
// How many of 100 operations write in a benchmark that mixes reads and writes; 0 in the others.
uint32_t WritePercent(const BenchConfig& config);

// The key of a record of a benchmark that is not YCSB's; number < config.num.
uint64_t KeyOfNumber(const BenchConfig& config, uint64_t number);
// A key that no such record has.
uint64_t MissingKey(const BenchConfig& config, uint64_t number);
// The key of a record of YCSB.
uint64_t YcsbKey(uint64_t number);

// The records that a run of this benchmark will insert behind those of ycsbload, by its count of
// operations.
uint64_t ExpectedInserts(const BenchConfig& config);
// Whether the store has this record of YCSB.
Status HasYcsbRecord(KvStore* store, uint64_t number, bool* has);
// Whether the store has the records that ycsbload writes: its first one, and the last one of each
// thread of a load.
Status HasYcsbRecords(const BenchConfig& config, KvStore* store, bool* has);

// Runs config.benchmark over an open store. Also after a failure *result has what was done.
// kInvalidArgument for a benchmark that is none or numbers out of range. kIncomplete when the user
// has interrupted, see CatchInterrupts. kCorruption for a value that no benchmark wrote under its
// key. kNotFound for a record of YCSB that is missing. Else the store's failure.
Status RunBenchmark(const BenchConfig& config, KvStore* store, BenchResult* result);

// Calls `visit` for each record that the run of a benchmark outside of YCSB has written or deleted.
void ReplayWrites(const BenchConfig& config, const BenchResult& result,
                  const std::function<void(uint64_t number, bool deleted)>& visit);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_BENCHMARK_H_
