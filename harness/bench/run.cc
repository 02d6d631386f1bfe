// RunBenchmark: threads, pacing and latencies.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "engine_race/base/function_ref.h"
#include "harness/bench/benchmark.h"
#include "harness/bench/load.h"
#include "harness/bench/timeline.h"
#include "harness/measure/progress.h"
#include "harness/measure/timed.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kUnlimited = ~uint64_t{0};

// What a thread has done.
struct alignas(64) ThreadTally {
  CallResult sums{.operations = 0};
  uint64_t call_count = 0;
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  // It did all that it had to do.
  bool complete = false;
  // By OperationKind.
  std::array<LatencyHistogram, kOperationKindCount> latencies;

  void Add(const CallResult& call, uint64_t latency_ns) {
    sums.Add(call);
    latencies[static_cast<size_t>(call.kind)].Add(latency_ns);
  }
};

// Linux lets sleepers sleep 50 us longer. With a rate that would be counted as latency.
void SleepExactly() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

// Waits until the call shall begin, and returns that time. 0 when the run ends before. Without a
// rate it is now.
uint64_t WaitToStart(const Pace& pace, uint64_t begin_ns, uint64_t call,
                     FunctionRef<bool()> goes_on) {
  if (!pace.has_rate()) return NowNs();
  const uint64_t at = begin_ns + pace.StartNs(call);
  for (uint64_t now = NowNs(); now < at; now = NowNs()) {
    if (!goes_on()) return 0;
    constexpr uint64_t kLongestSleepNs = 20000000;
    std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(at - now, kLongestSleepNs)));
  }
  return at;
}

class Run {
 public:
  Run(const BenchConfig& config, const BenchTraits& traits, KvStore* store, BenchResult* result)
      : config_(config),
        traits_(traits),
        store_(store),
        result_(result),
        for_a_time_(config.duration_seconds > 0 && !traits.has_end),
        batch_(config.benchmark == "multireadrandom" ? config.batch_size : 1),
        tallies_(config.thread_count + (traits.has_writer ? 1 : 0)),
        readers_left_(config.thread_count),
        progress_(config.benchmark + " ", ExpectedOperations(), config.record_bytes(),
                  config.thread_count, for_a_time_ ? config.duration_seconds : 0),
        timeline_(progress_, config.on_second, &result->timeline) {}

  Status Go() {
    if (traits_.is_ycsb) ENGINE_RACE_RETURN_IF_ERROR(CountYcsbRecords());
    const CpuTimes before = ProcessCpuTimes();
    TimedPoint ignored;
    const Status status = RunTimed(
        static_cast<uint32_t>(tallies_.size()), LimitSeconds(),
        [this](uint32_t thread, TimedThread* self) {
          return thread == config_.thread_count ? Write(self) : Work(thread, self);
        },
        &ignored);
    result_->cpu = ProcessCpuTimes() - before;
    Sum(status.ok());
    return status;
  }

 private:
  // The calls that a thread makes unless the time is up or the store ends.
  uint64_t CallsOf(uint32_t thread) const {
    if (for_a_time_ || config_.benchmark == "scanall") return kUnlimited;
    if (traits_.divides_writes) return ShareOf(WritesOf(config_), thread, config_.thread_count);
    return (ReadsOfThread(config_) + batch_ - 1) / batch_;
  }
  uint64_t ExpectedOperations() const {
    if (traits_.divides_writes) return WritesOf(config_);
    const bool of_num = traits_.has_end && config_.reads == 0;
    return (of_num ? config_.num : ReadsOfThread(config_)) * config_.thread_count;
  }
  double LimitSeconds() const {
    double limit = kNoLimitSeconds;
    if (for_a_time_) limit = config_.duration_seconds;
    if (config_.time_limit_seconds > 0) limit = std::min(limit, config_.time_limit_seconds);
    return limit;
  }
  // The time that ended the run was its duration, not its limit.
  bool LastedItsDuration() const {
    return for_a_time_ && (config_.time_limit_seconds == 0 ||
                           config_.duration_seconds <= config_.time_limit_seconds);
  }

  // Operations a second of all threads but a background writer.
  double Rate() const {
    const bool only_writes = traits_.divides_writes && config_.benchmark != "deleterandom";
    if (!only_writes || config_.write_rate == 0) return config_.rate;
    return config_.rate == 0 ? config_.write_rate : std::min(config_.rate, config_.write_rate);
  }

  // Earlier workloads may have inserted records behind those of ycsbload.
  Status CountYcsbRecords() {
    uint64_t count = 0;
    if (config_.benchmark != "ycsbload") {
      ENGINE_RACE_RETURN_IF_ERROR(FindYcsbEnd(&count));
      draw_ = std::make_unique<YcsbDraw>(
          config_.distribution.value_or(config_.benchmark == "ycsbd" ? Distribution::kLatest
                                                                     : Distribution::kZipfian),
          config_.num, ExpectedInserts(config_));
    }
    ycsb_count_ = std::make_unique<AckedCounter>(count);
    return Status::Ok();
  }
  Status FindYcsbEnd(uint64_t* count) const {
    uint64_t there = config_.num;  // records 0 to there - 1 exist
    uint64_t step = 1;
    bool found = true;
    while (found) {
      ENGINE_RACE_RETURN_IF_ERROR(HasYcsbRecord(store_, there + step - 1, &found));
      if (!found) break;
      there += step;
      step *= 2;
    }
    for (uint64_t missing = there + step - 1; there < missing;) {
      const uint64_t middle = there + (missing - there) / 2;
      ENGINE_RACE_RETURN_IF_ERROR(HasYcsbRecord(store_, middle, &found));
      (found ? there : missing) = found ? middle + 1 : middle;
    }
    *count = there;
    return Status::Ok();
  }

  LoadContext ContextOf(uint32_t thread, TimedThread* self) {
    return {config_,
            store_,
            thread,
            ycsb_count_.get(),
            draw_.get(),
            [this, thread, self](uint64_t operations) {
              progress_.Add(thread, operations);
              return self->Running();
            }};
  }

  Status Work(uint32_t thread, TimedThread* self) {
    ThreadTally& tally = tallies_[thread];
    std::unique_ptr<Load> load;
    ENGINE_RACE_RETURN_IF_ERROR(MakeLoad(ContextOf(thread, self), &load));
    const Pace pace(Rate(), config_.thread_count, thread, batch_);
    if (pace.has_rate()) SleepExactly();
    self->Start();
    timeline_.Begin();
    tally.begin_ns = NowNs();
    const Status status = CallAll(thread, *self, pace, load.get(), &tally);
    tally.end_ns = NowNs();
    // Relaxed: only tells the writer to end soon.
    readers_left_.fetch_sub(1, std::memory_order_relaxed);
    self->Stop();
    return status;
  }

  Status CallAll(uint32_t thread, const TimedThread& self, const Pace& pace, Load* load,
                 ThreadTally* tally) {
    const uint64_t call_count = CallsOf(thread);
    const bool counts_itself = config_.benchmark == "scanall";
    while (tally->call_count < call_count) {
      if (!self.Running()) return Status::Ok();
      const uint64_t call = tally->call_count;
      load->Prepare(call);
      const uint64_t begin_ns =
          WaitToStart(pace, tally->begin_ns, call, [&] { return self.Running(); });
      if (begin_ns == 0) return Status::Ok();
      CallResult result;
      const Status status = load->Call(call, &result);
      if (counts_itself) {
        // A scan that fails has visited records before.
        tally->sums.Add(result);
        tally->complete = status.ok() && self.Running();
        return status;
      }
      if (!status.ok()) return status;
      if (result.operations == 0) {
        tally->complete = self.Running();
        return Status::Ok();
      }
      tally->Add(result, NowNs() - begin_ns);
      ++tally->call_count;
      progress_.Add(thread, result.operations);
    }
    tally->complete = true;
    return Status::Ok();
  }

  // The writer beside readers, until the last of them has ended.
  Status Write(TimedThread* self) {
    const uint32_t thread = config_.thread_count;
    ThreadTally& tally = tallies_[thread];
    const std::unique_ptr<Load> load = MakeBackgroundWriter(ContextOf(thread, self));
    const Pace pace(config_.write_rate, /*thread_count=*/1, /*thread=*/0, /*operations=*/1);
    self->Start();
    const uint64_t begin_ns = NowNs();
    const auto goes_on = [&] {
      // Relaxed: as in Work.
      return self->Running() && readers_left_.load(std::memory_order_relaxed) > 0;
    };
    while (goes_on()) {
      CallResult result;
      load->Prepare(tally.call_count);
      if (WaitToStart(pace, begin_ns, tally.call_count, goes_on) == 0) break;
      ENGINE_RACE_RETURN_IF_ERROR(load->Call(tally.call_count, &result));
      tally.sums.Add(result);
      ++tally.call_count;
    }
    return Status::Ok();
  }

  void Sum(bool ok) {
    uint64_t begin_ns = kUnlimited;
    uint64_t end_ns = 0;
    bool complete = ok;
    CallResult sums{.operations = 0};
    for (uint32_t thread = 0; thread < config_.thread_count; ++thread) {
      const ThreadTally& tally = tallies_[thread];
      sums.Add(tally.sums);
      complete = complete && (tally.complete || LastedItsDuration());
      // A thread that failed to begin has no times.
      if (tally.begin_ns == 0) continue;
      begin_ns = std::min(begin_ns, tally.begin_ns);
      end_ns = std::max(end_ns, std::max(tally.end_ns, tally.begin_ns));
      result_->thread_seconds += static_cast<double>(tally.end_ns - tally.begin_ns) * 1e-9;
      for (size_t kind = 0; kind < kOperationKindCount; ++kind) {
        result_->latencies[kind].Merge(tally.latencies[kind]);
      }
    }
    result_->seconds = begin_ns < end_ns ? static_cast<double>(end_ns - begin_ns) * 1e-9 : 0;
    timeline_.End(result_->seconds);
    result_->operations = sums.operations;
    result_->bytes = sums.bytes;
    result_->lookup_count = sums.lookup_count;
    result_->found_count = sums.found_count;
    result_->finished = complete;
    for (const ThreadTally& tally : tallies_) {
      result_->written_bytes += tally.sums.written_bytes;
      result_->thread_calls.push_back(tally.call_count);
    }
    if (!traits_.is_ycsb) return;
    result_->ycsb_record_count =
        config_.benchmark == "ycsbload" ? sums.operations : ycsb_count_->count();
  }

  const BenchConfig& config_;
  const BenchTraits& traits_;
  KvStore* const store_;
  BenchResult* const result_;
  // The time says when it ends, not a count.
  const bool for_a_time_;
  const uint32_t batch_;
  std::vector<ThreadTally> tallies_;
  std::atomic<uint32_t> readers_left_;
  std::unique_ptr<AckedCounter> ycsb_count_;
  std::unique_ptr<YcsbDraw> draw_;
  Progress progress_;
  Timeline timeline_;
};

}  // namespace

Status RunBenchmark(const BenchConfig& config, KvStore* store, BenchResult* result) {
  *result = BenchResult();
  result->benchmark = config.benchmark;
  result->thread_count = config.thread_count;
  const BenchTraits* const traits = FindBenchmark(config.benchmark);
  if (traits == nullptr) {
    return Status::InvalidArgument("there is no benchmark " + config.benchmark);
  }
  if (config.num == 0 || config.num > kMaxBenchRecords) {
    return Status::InvalidArgument("num is 0 or above 2^40");
  }
  if (config.thread_count == 0 || config.batch_size == 0 || config.range_count == 0) {
    return Status::InvalidArgument(
        "a benchmark needs a thread, a batch needs a key, and a query needs a range");
  }
  if (config.read_percent > 100) return Status::InvalidArgument("read_percent is above 100");
  Run run(config, *traits, store, result);
  return run.Go();
}

}  // namespace engine_race::harness
