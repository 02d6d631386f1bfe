#include "harness/race/runner.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "engine_race/base/latency_histogram.h"
#include "harness/load/store_basics.h"
#include "harness/measure/progress.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

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

// The launcher reads numa_maps after this line, while the phase's memory is in use.
std::string DoneLine(Phase phase) {
  return std::string("done ") + PhaseName(phase) + " " + std::to_string(::getpid());
}

void SetLatency(const LatencyHistogram& latency, PhaseResult* result) {
  result->mean_ns = latency.mean_ns();
  result->p50_ns = latency.PercentileNs(0.5);
  result->p99_ns = latency.PercentileNs(0.99);
  result->p999_ns = latency.PercentileNs(0.999);
  result->max_ns = latency.max_ns();
}

// The order of records in which the threads of a race write: they take turns.
auto InTurns(uint32_t thread_count, uint64_t records_each) {
  return [thread_count, records_each](uint32_t thread, uint64_t i) {
    return i < records_each ? std::optional(i * thread_count + thread) : std::nullopt;
  };
}

// Runs the threads of the phase over the open store. `start_ns` is when the phase began.
Status RunThreads(Phase phase, const RaceConfig& config, uint64_t start_ns,
                  const KeySummary& expected, ContestPhases<EngineCalls> phases,
                  PhaseResult* result) {
  TimedPoint point;
  Status status;
  switch (phase) {
    case Phase::kWrite:
      status = phases.Write(InTurns(config.thread_count, config.records_per_thread), &point);
      break;
    case Phase::kRead:
      status = phases.Read(&point);
      break;
    case Phase::kMixed:
      status = phases.Mix(&point);
      break;
    case Phase::kRange: {
      uint64_t pass_start_ns = start_ns;
      const auto note_pass = [&](uint32_t pass) {
        result->pass_seconds[pass] = SecondsSince(pass_start_ns);
        pass_start_ns = NowNs();
      };
      status = phases.Range(expected, config.checks_ranged_values, note_pass, &point);
      break;
    }
  }
  result->record_count = phase == Phase::kRange ? expected.distinct_count : point.request_count;
  SetLatency(point.latency, result);
  return status;
}

}  // namespace

double PhaseResult::BytesPerSecond() const {
  return seconds > 0 ? static_cast<double>(record_count * value_bytes) / seconds : 0;
}

double PhaseResult::PassBytesPerSecond(uint32_t pass) const {
  const double took = pass_seconds[pass];
  return took > 0 ? static_cast<double>(record_count * value_bytes) / took : 0;
}

Status OpenStore(const RaceConfig& config, std::unique_ptr<Store>* store) {
  Options options = QuietOptions();
  options.value_bytes = config.value_bytes;
  options.memory_budget_bytes = config.memory_budget_bytes;
  if (!config.key_range.HasAllKeys()) options.key_range = config.key_range;
  options.numa = config.numa;
  if (config.value_group_bytes != 0) options.value_group_bytes = config.value_group_bytes;
  if (!config.writes_index) {
    options.index_close_bytes = 0;
    options.index_sync_bytes = 0;
    options.index_idle_ms = 0;
  }
  const Status status = Store::Open(options, config.dir, store);
  return status.ok() ? status : Status(status.code(), "open: " + status.ToString());
}

PhaseResult RunPhase(Phase phase, const RaceConfig& config) {
  const KeySource keys(config.keys, config.record_count(), config.seed, config.key_range);
  const ValueMaker values(config.seed, config.value_bytes);
  const KeySummary expected = phase == Phase::kRange ? keys.Summarize() : KeySummary();
  const bool is_range = phase == Phase::kRange;
  const uint32_t thread_count =
      is_range && config.range_thread_count > 0 ? config.range_thread_count : config.thread_count;
  const uint64_t operations_each = is_range                 ? expected.distinct_count * kRangePasses
                                   : phase == Phase::kWrite ? config.records_per_thread
                                                            : config.reads_each();
  Progress progress(PhaseName(phase), operations_each * thread_count, config.value_bytes,
                    thread_count);
  const ContestShape shape = {.thread_count = thread_count,
                              .seed = config.seed,
                              .operations_each = operations_each,
                              .readable_count = config.record_count()};
  PhaseResult result;
  result.value_bytes = config.value_bytes;
  PhaseClock clock;
  std::unique_ptr<Store> store;
  Status status = OpenStore(config, &store);
  clock.Opened();
  if (status.ok()) {
    status = RunThreads(phase, config, clock.start_ns(), expected,
                        {shape, keys, values, EngineCalls(store.get()), &progress}, &result);
  }
  clock.Done();
  // An instance that has failed does not wait: its process ends, and the launcher stops the others.
  if (status.ok() && !PassGate(config.gate, DoneLine(phase))) {
    status = Status::IOError("the other instances have stopped");
  }
  clock.Closing();
  store.reset();
  clock.Closed(&result);
  result.ok = status.ok();
  result.error = status.message();
  return result;
}

namespace {

// A reader that has gone must be an error of the write, not the end of this process.
class IgnoredPipeSignal {
 public:
  IgnoredPipeSignal() : before_(::signal(SIGPIPE, SIG_IGN)) {}
  IgnoredPipeSignal(const IgnoredPipeSignal&) = delete;
  IgnoredPipeSignal& operator=(const IgnoredPipeSignal&) = delete;
  ~IgnoredPipeSignal() {
    if (before_ != SIG_ERR) ::signal(SIGPIPE, before_);
  }

 private:
  void (*before_)(int);
};

// A line is shorter than a pipe's atomic write.
bool SayLine(int fd, const std::string& line) {
  const IgnoredPipeSignal ignored;
  const std::string text = line + "\n";
  ssize_t written = 0;
  do {
    written = ::write(fd, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(text.size());
}

bool HearLine(int fd) {
  char byte = 0;
  while (byte != '\n') {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
  }
  return true;
}

}  // namespace

bool PassGate(const GateFds& fds, const std::string& line) {
  return fds.out < 0 || (SayLine(fds.out, line) && HearLine(fds.in));
}

}  // namespace engine_race::harness
