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

namespace engine_race::harness {

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
  explicit Load(const LoadContext& context)
      : config_(context.config),
        store_(context.store),
        goes_on_(context.goes_on),
        words_(context.config, context.thread),
        value_(context.config.value_bytes),
        values_(kBenchValueSeed, context.config.value_bytes) {}
  virtual ~Load() = default;

  // Called once, first.
  virtual Status Open() { return Status::Ok(); }
  // Called before Call, outside of the measured latency.
  virtual void Prepare(uint64_t /*call*/) {}
  virtual Status Call(uint64_t call, CallResult* result) = 0;

 protected:
  Status OpenCursor() { return store_->NewCursor(&cursor_); }

  // The key of the record that random word `draw` of the thread selects.
  uint64_t DrawnKey(uint64_t draw) const {
    return KeyOfNumber(config_, AsBelow(words_.At(draw), config_.num));
  }
  // Makes the value of key_ that this call writes.
  void MakeValue(uint64_t call) { values_.Fill(key_, call, value_.data()); }
  Status Put(OperationKind kind, CallResult* result) {
    result->kind = kind;
    result->bytes += config_.record_bytes();
    result->written_bytes += config_.record_bytes();
    return store_->Put(key_, value_.data());
  }
  // Reads and checks the record of key_, which may be missing, into `value`.
  Status Get(char* value, CallResult* result);
  // Reads and checks the record at a valid cursor.
  Status ReadHere(CallResult* result);
  // kCorruption unless the value's ends, see ValueMaker, are those of a value that a benchmark
  // has written under this key.
  Status Check(uint64_t key, const char* value) const {
    uint64_t version = 0;
    if (!config_.checks_values || values_.CheckEnds(key, value, &version)) [[likely]]
      return {};
    return WrongValue(key);
  }

  const BenchConfig& config_;
  KvStore* const store_;
  const std::function<bool(uint64_t)> goes_on_;
  const WordStream words_;
  std::unique_ptr<KvCursor> cursor_;
  uint64_t key_ = 0;  // of the next call
  std::vector<char> value_;

 private:
  static Status WrongValue(uint64_t key);

  const ValueMaker values_;
};

// kInvalidArgument for a benchmark that is none, else the store's failure.
Status MakeLoad(const LoadContext& context, std::unique_ptr<Load>* load);

// The order in which a benchmark writes its records.
WriteOrder WriteOrderOf(std::string_view benchmark);

// The writer beside readers.
std::unique_ptr<Load> MakeBackgroundWriter(const LoadContext& context);
// A workload of YCSB; null for a benchmark that is none.
std::unique_ptr<Load> MakeYcsbLoad(const LoadContext& context);

}  // namespace engine_race::harness

#endif  // HARNESS_BENCH_LOAD_H_
