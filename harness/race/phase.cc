#include "harness/race/phase.h"

#include <memory>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/measure/histogram.h"
#include "harness/measure/progress.h"
#include "harness/measure/workers.h"
#include "harness/race/open_store.h"
#include "harness/race/range_run.h"
#include "harness/system/process_stats.h"

namespace harness {

namespace {

constexpr uint64_t kReadStream = 0x72656164;

// Measures one phase from before Open until the store is closed.
class PhaseClock {
 public:
  PhaseClock() : cpu_before_(CpuSeconds()), start_ns_(NowNs()) {}
  uint64_t start_ns() const { return start_ns_; }
  void Opened() { opened_ns_ = NowNs(); }
  void Closing() { closing_ns_ = NowNs(); }
  void Closed(PhaseResult* result) const {
    const uint64_t closed_ns = NowNs();
    const auto seconds = [](uint64_t from, uint64_t to) {
      return static_cast<double>(to - from) * 1e-9;
    };
    result->seconds = seconds(start_ns_, closed_ns);
    result->open_seconds = seconds(start_ns_, opened_ns_);
    result->close_seconds = seconds(closing_ns_, closed_ns);
    result->cpu_seconds = CpuSeconds() - cpu_before_;
    result->peak_rss_bytes = PeakRssBytes();
  }

 private:
  double cpu_before_;
  uint64_t start_ns_;
  uint64_t opened_ns_ = 0;
  uint64_t closing_ns_ = 0;
};

// The context of a thread of the write or the read phase.
struct Worker {
  const RaceConfig& config;
  const KeySource& keys;
  const ValueMaker& values;
  engine_race::Store* store;
  Failures* failures;
  Progress* progress;
  uint32_t thread;
  Histogram* latency;
};

void WriteRecords(const Worker& w) {
  alignas(64) char value[kValueSize];
  char key_bytes[sizeof(uint64_t)];
  for (uint64_t i = 0; i < w.config.records_per_thread && !w.failures->any(); ++i) {
    const uint64_t index = i * w.config.thread_count + w.thread;
    const uint64_t key = w.keys.KeyAt(index);
    engine_race::EncodeKey(key, key_bytes);
    w.values.Fill(key, index, value);
    const uint64_t start_ns = NowNs();
    const engine_race::Status status =
        w.store->Write({key_bytes, sizeof(key_bytes)}, {value, sizeof(value)});
    w.latency->Add(NowNs() - start_ns);
    if (!status.ok()) return w.failures->Note(KeyFailure(key, status.ToString()));
    w.progress->Add(w.thread, 1);
  }
}

// Describes the fault of `value`; empty when it was written under `key`.
std::string FaultOf(const KeySource& keys, const ValueMaker& values, uint64_t key,
                    const std::string& value) {
  if (value.size() != kValueSize) return "a value of " + std::to_string(value.size()) + " bytes";
  uint64_t version = 0;
  if (!values.CheckAll(key, value.data(), &version)) return "wrong bytes";
  if (version >= keys.record_count() || keys.KeyAt(version) != key) return "a foreign version";
  return {};
}

void ReadRecords(const Worker& w) {
  std::string value;
  char key_bytes[sizeof(uint64_t)];
  for (uint64_t i = 0; i < w.config.records_per_thread && !w.failures->any(); ++i) {
    const uint64_t draw = MixAt(w.config.seed ^ kReadStream, i * w.config.thread_count + w.thread);
    const uint64_t key = w.keys.KeyAt(AsBelow(draw, w.keys.record_count()));
    engine_race::EncodeKey(key, key_bytes);
    const uint64_t start_ns = NowNs();
    const engine_race::Status status = w.store->Read({key_bytes, sizeof(key_bytes)}, &value);
    w.latency->Add(NowNs() - start_ns);
    const std::string fault =
        status.ok() ? FaultOf(w.keys, w.values, key, value) : status.ToString();
    if (!fault.empty()) return w.failures->Note(KeyFailure(key, fault));
    w.progress->Add(w.thread, 1);
  }
}

void SetLatency(const std::vector<Histogram>& by_thread, PhaseResult* result) {
  Histogram all;
  for (const Histogram& one : by_thread) all.Merge(one);
  result->record_count = all.count();
  result->p50_ns = all.Percentile(0.5);
  result->p99_ns = all.Percentile(0.99);
  result->p999_ns = all.Percentile(0.999);
  result->max_ns = all.max();
}

// Runs the write or the read phase, which differ only in their threads' loops.
PhaseResult RunPoints(Phase phase, const RaceConfig& config) {
  const KeySource keys(config.keys, config.record_count(), config.seed);
  const ValueMaker values(config.seed);
  std::vector<Histogram> latency(config.thread_count);
  Progress progress(PhaseName(phase), config.record_count(), kValueSize, config.thread_count);
  Failures failures;
  PhaseResult result;
  PhaseClock clock;
  std::unique_ptr<engine_race::Store> store = OpenStore(config, &failures);
  clock.Opened();
  if (store != nullptr) {
    RunWorkers(config.thread_count, &failures, [&](uint32_t thread) {
      const Worker worker = {config,    keys,      values, store.get(),
                             &failures, &progress, thread, &latency[thread]};
      phase == Phase::kWrite ? WriteRecords(worker) : ReadRecords(worker);
    });
  }
  clock.Closing();
  store.reset();
  clock.Closed(&result);
  SetLatency(latency, &result);
  result.ok = !failures.any();
  result.error = failures.first();
  return result;
}

PhaseResult RunRanges(const RaceConfig& config) {
  const KeySource keys(config.keys, config.record_count(), config.seed);
  const ValueMaker values(config.seed);
  const KeySummary summary = keys.Summarize();
  Progress progress("range", summary.distinct_count * config.thread_count * kRangePasses,
                    kValueSize, config.thread_count);
  Failures failures;
  PhaseResult result;
  PhaseClock clock;
  std::unique_ptr<engine_race::Store> store = OpenStore(config, &failures);
  clock.Opened();
  if (store != nullptr) {
    RangeRun run(keys, values, summary, store.get(), &failures, &progress, config.thread_count,
                 config.checks_ranged_values);
    run.Run(clock.start_ns(),
            [&](uint32_t pass, double seconds) { result.pass_seconds[pass] = seconds; });
  }
  clock.Closing();
  store.reset();
  clock.Closed(&result);
  result.record_count = summary.distinct_count;
  result.ok = !failures.any();
  result.error = failures.first();
  return result;
}

}  // namespace

const char* PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kWrite:
      return "write";
    case Phase::kRead:
      return "read";
    case Phase::kRange:
      return "range";
  }
  return "unknown";
}

double PhaseResult::BytesPerSecond() const {
  return seconds > 0 ? static_cast<double>(record_count * kValueSize) / seconds : 0;
}

double PhaseResult::PassBytesPerSecond(uint32_t pass) const {
  const double took = pass_seconds[pass];
  return took > 0 ? static_cast<double>(record_count * kValueSize) / took : 0;
}

PhaseResult RunPhase(Phase phase, const RaceConfig& config) {
  return phase == Phase::kRange ? RunRanges(config) : RunPoints(phase, config);
}

}  // namespace harness
