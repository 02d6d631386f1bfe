#include "harness/race/phase.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/base/latency_histogram.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/measure/progress.h"
#include "harness/measure/workers.h"
#include "harness/race/open_store.h"
#include "harness/race/range_run.h"
#include "harness/system/process_stats.h"

namespace harness {

namespace {

constexpr uint64_t kMixedStream = 0x6d697865;

// Measures one phase from before Open until the store is closed.
class PhaseClock {
 public:
  PhaseClock() : cpu_before_(CpuSeconds()), start_ns_(NowNs()) {}
  uint64_t start_ns() const { return start_ns_; }
  void Opened() { opened_ns_ = NowNs(); }
  // The work is done. The wait for other instances until Closing is not counted.
  void Done() {
    done_ns_ = NowNs();
    cpu_done_ = CpuSeconds();
  }
  void Closing() {
    closing_ns_ = NowNs();
    cpu_closing_ = CpuSeconds();
  }
  void Closed(PhaseResult* result) const {
    const uint64_t closed_ns = NowNs();
    const auto seconds = [](uint64_t from, uint64_t to) {
      return static_cast<double>(to - from) * 1e-9;
    };
    result->seconds = seconds(start_ns_, done_ns_) + seconds(closing_ns_, closed_ns);
    result->open_seconds = seconds(start_ns_, opened_ns_);
    result->close_seconds = seconds(closing_ns_, closed_ns);
    result->cpu_seconds = CpuSeconds() - cpu_closing_ + cpu_done_ - cpu_before_;
    result->peak_rss_bytes = PeakRssBytes();
  }

 private:
  double cpu_before_;
  uint64_t start_ns_;
  uint64_t opened_ns_ = 0;
  double cpu_done_ = 0;
  uint64_t done_ns_ = 0;
  double cpu_closing_ = 0;
  uint64_t closing_ns_ = 0;
};

// The context of a thread of a phase other than the range.
struct Worker {
  const RaceConfig& config;
  const KeySource& keys;
  const ValueMaker& values;
  engine_race::Store* store;
  Failures* failures;
  Progress* progress;
  uint32_t thread;
  engine_race::LatencyHistogram* latency;
};

// Describes the fault of `value`; empty when it was written under `key`.
std::string FaultOf(const KeySource& keys, const ValueMaker& values, uint64_t key,
                    const std::string& value) {
  if (value.size() != kValueSize) return "a value of " + std::to_string(value.size()) + " bytes";
  uint64_t version = 0;
  if (!values.CheckAll(key, value.data(), &version)) return "wrong bytes";
  if (version >= keys.record_count() || keys.KeyAt(version) != key) return "a foreign version";
  return {};
}

// Reads the record that was drawn. Empty, or what is wrong with it.
std::string ReadOne(const Worker& w, uint64_t key, std::string* value) {
  char key_bytes[sizeof(uint64_t)];
  engine_race::EncodeKey(key, key_bytes);
  const uint64_t start_ns = NowNs();
  const engine_race::Status status = w.store->Read({key_bytes, sizeof(key_bytes)}, value);
  w.latency->Add(NowNs() - start_ns);
  return status.ok() ? FaultOf(w.keys, w.values, key, *value) : status.ToString();
}

// Writes record `index`. Empty, or what is wrong.
std::string WriteOne(const Worker& w, uint64_t key, uint64_t index, char* value) {
  char key_bytes[sizeof(uint64_t)];
  engine_race::EncodeKey(key, key_bytes);
  w.values.Fill(key, index, value);
  const uint64_t start_ns = NowNs();
  const engine_race::Status status =
      w.store->Write({key_bytes, sizeof(key_bytes)}, {value, kValueSize});
  w.latency->Add(NowNs() - start_ns);
  return status.ok() ? std::string() : status.ToString();
}

void WriteRecords(const Worker& w) {
  alignas(64) char value[kValueSize];
  for (uint64_t i = 0; i < w.config.records_per_thread && !w.failures->any(); ++i) {
    const uint64_t index = i * w.config.thread_count + w.thread;
    const uint64_t key = w.keys.KeyAt(index);
    const std::string fault = WriteOne(w, key, index, value);
    if (!fault.empty()) return w.failures->Note(KeyFailure(key, fault));
    w.progress->Add(w.thread, 1);
  }
}

// The word of a thread's i-th operation on records that are drawn.
uint64_t DrawAt(const Worker& w, uint64_t stream, uint64_t i) {
  return MixAt(w.config.seed ^ stream, i * w.config.thread_count + w.thread);
}

void ReadRecords(const Worker& w) {
  std::string value;
  for (uint64_t i = 0; i < w.config.records_per_thread && !w.failures->any(); ++i) {
    const uint64_t index = AsBelow(DrawAt(w, kReadStream, i), w.keys.record_count());
    const uint64_t key = w.keys.KeyAt(index);
    const std::string fault = ReadOne(w, key, &value);
    if (!fault.empty()) return w.failures->Note(KeyFailure(key, fault));
    w.progress->Add(w.thread, 1);
  }
}

// An overwrite writes the value of record `index`, so that later phases can check it.
void MixRecords(const Worker& w) {
  alignas(64) char written[kValueSize];
  std::string value;
  for (uint64_t i = 0; i < w.config.records_per_thread && !w.failures->any(); ++i) {
    const uint64_t draw = DrawAt(w, kMixedStream, i);
    const uint64_t index = AsBelow(draw, w.keys.record_count());
    const uint64_t key = w.keys.KeyAt(index);
    // The high bits chose the index. The lowest bit chooses between read and write.
    const std::string fault =
        draw % 2 == 0 ? ReadOne(w, key, &value) : WriteOne(w, key, index, written);
    if (!fault.empty()) return w.failures->Note(KeyFailure(key, fault));
    w.progress->Add(w.thread, 1);
  }
}

// The launcher reads numa_maps after this line, while the phase's memory is in use.
std::string DoneLine(Phase phase) {
  return std::string("done ") + PhaseName(phase) + " " + std::to_string(::getpid());
}

// An instance that has failed does not wait: its process ends, and the launcher stops the others.
void AwaitOthers(const RaceConfig& config, Phase phase, Failures* failures) {
  if (failures->any()) return;
  if (!PassGate(config.gate, DoneLine(phase))) failures->Note("the other instances have stopped");
}

void SetLatency(const std::vector<engine_race::LatencyHistogram>& by_thread, PhaseResult* result) {
  engine_race::LatencyHistogram all;
  for (const engine_race::LatencyHistogram& one : by_thread) all.Merge(one);
  result->record_count = all.count();
  result->mean_ns = all.mean_ns();
  result->p50_ns = all.PercentileNs(0.5);
  result->p99_ns = all.PercentileNs(0.99);
  result->p999_ns = all.PercentileNs(0.999);
  result->max_ns = all.max_ns();
}

// Runs a phase other than the range. Such phases differ only in their threads' loops.
PhaseResult RunPoints(Phase phase, const RaceConfig& config) {
  const KeySource keys(config.keys, config.record_count(), config.seed, config.key_range);
  const ValueMaker values(config.seed);
  std::vector<engine_race::LatencyHistogram> latency(config.thread_count);
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
      if (phase == Phase::kWrite) WriteRecords(worker);
      if (phase == Phase::kRead) ReadRecords(worker);
      if (phase == Phase::kMixed) MixRecords(worker);
    });
  }
  clock.Done();
  AwaitOthers(config, phase, &failures);
  clock.Closing();
  store.reset();
  clock.Closed(&result);
  SetLatency(latency, &result);
  result.ok = !failures.any();
  result.error = failures.first();
  return result;
}

PhaseResult RunRanges(const RaceConfig& config) {
  const KeySource keys(config.keys, config.record_count(), config.seed, config.key_range);
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
  clock.Done();
  AwaitOthers(config, Phase::kRange, &failures);
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
    case Phase::kMixed:
      return "mixed";
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
