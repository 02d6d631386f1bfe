// The work of one thread of a benchmark, call by call.
//
// A load belongs to one thread. Everything in its context outlives it.
#ifndef HARNESS_BENCH_LOAD_H_
#define HARNESS_BENCH_LOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine_race/base/status.h"
#include "harness/bench/benchmark.h"
#include "harness/bench/draws.h"
#include "harness/data/value_maker.h"
#include "harness/kv/kv_store.h"

namespace harness {

// The counts of one call.
struct CallResult {
  OperationKind kind = OperationKind::kRead;
  uint64_t operations = 1;  // 0: nothing was left to do, or the run is over
  uint64_t bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t lookup_count = 0;
  uint64_t found_count = 0;

  // Adds the counts.
  void Add(const CallResult& other);
};

struct LoadContext {
  const BenchConfig& config;
  KvStore* store;
  uint32_t thread;
  // Of YCSB, else null.
  AckedCounter* ycsb_count;
  const YcsbDraw* ycsb_draw;
  // A call reports operations while it runs: how many it has done since its last report. False
  // when the run is over and the call has to return.
  std::function<bool(uint64_t operations)> goes_on;
};

class Load {
 public:
  virtual ~Load() = default;
  // Called before Call, outside of the measured latency.
  virtual void Prepare(uint64_t /*call*/) {}
  virtual engine_race::Status Call(uint64_t call, CallResult* result) = 0;
};

// kInvalidArgument for a benchmark that is none, else the store's failure.
engine_race::Status MakeLoad(const LoadContext& context, std::unique_ptr<Load>* load);

// The order in which a benchmark writes its records.
WriteOrder WriteOrderOf(std::string_view benchmark);

// The writer beside readers.
std::unique_ptr<Load> MakeBackgroundWriter(const LoadContext& context);
// readrandomwriterandom or updaterandom.
std::unique_ptr<Load> MakeMixedLoad(const LoadContext& context);
// A workload of YCSB.
engine_race::Status MakeYcsbLoad(const LoadContext& context, std::unique_ptr<Load>* load);

// Makes the values that loads write, and checks those that they read.
class ValueChecks {
 public:
  explicit ValueChecks(bool enabled) : enabled_(enabled), values_(kBenchValueSeed) {}

  void Fill(uint64_t key, uint64_t version, char* value) const {
    values_.Fill(key, version, value);
  }
  // kCorruption unless the value's first 16 and last 8 bytes are those of a value that a benchmark
  // has written under this key.
  engine_race::Status Check(uint64_t key, const char* value) const {
    uint64_t version = 0;
    if (!enabled_ || values_.CheckEnds(key, value, &version)) [[likely]]
      return {};
    return Failure(key);
  }

 private:
  static engine_race::Status Failure(uint64_t key);

  const bool enabled_;
  const ValueMaker values_;
};

// Reads and checks the record of a key, which may be missing, into `value`.
engine_race::Status ReadKey(KvStore* store, uint64_t key, const ValueChecks& checks, char* value,
                            CallResult* result);
// Reads and checks the record at a valid cursor.
engine_race::Status ReadAt(KvCursor* cursor, const ValueChecks& checks, CallResult* result);

}  // namespace harness

#endif  // HARNESS_BENCH_LOAD_H_
