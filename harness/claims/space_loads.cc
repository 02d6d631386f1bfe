#include "harness/claims/space_loads.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "harness/bench/timeline.h"
#include "harness/data/mix.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

constexpr uint64_t kWriteStream = 0x7772697465;

// A thread that waits for its turn looks this often whether it should end.
constexpr uint64_t kMostSleepNs = 100'000'000;

// `ns` is of NowNs, whose clock is CLOCK_MONOTONIC.
void SleepUntil(uint64_t ns) {
  const timespec when = {static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

}  // namespace

LoopClock SteadyClock() { return {NowNs, SleepUntil}; }

Overwriters::Overwriters(const SpaceRecords& records, const Shape& shape, PutFn put)
    : records_(records),
      shape_(shape),
      draw_(shape.draw, records.count()),
      put_(std::move(put)),
      begin_ns_(NowNs()),
      slots_(shape.thread_count),
      runner_([this] {
        status_ = RunTimed(shape_.thread_count, kNoLimitSeconds,
                           [this](uint32_t thread, TimedThread* self) {
                             self->Start();
                             return Write(thread, *self);
                           });
        failed_ = !status_.ok();
      }) {}

Overwriters::~Overwriters() { (void)Stop(); }

Status Overwriters::Write(uint32_t thread, const TimedThread& self) {
  const uint64_t stream = MixAt(shape_.seed ^ kWriteStream, thread);
  const Pace pace(shape_.rate, shape_.thread_count, thread, 1);
  alignas(64) char value[kValueSize];
  // Relaxed: only asks the thread to end soon; joining it orders the rest.
  const auto is_over = [&] { return stopped_.load(std::memory_order_relaxed) || !self.Running(); };
  for (uint64_t i = 0; !is_over(); ++i) {
    if (pace.has_rate()) {
      const uint64_t start_ns = begin_ns_ + pace.StartNs(i);
      while (NowNs() < start_ns && !is_over()) {
        SleepUntil(std::min(start_ns, NowNs() + kMostSleepNs));
      }
      if (is_over()) break;
    }
    const uint64_t key = records_.KeyAt(draw_.IndexFrom(MixAt(stream, i)));
    records_.values().Fill(key, i + 1, value);
    ENGINE_RACE_RETURN_IF_ERROR(put_(key, value));
    // Relaxed: a reader of the sum needs no order, and only this thread writes the slot.
    slots_[thread].done.store(i + 1, std::memory_order_relaxed);
  }
  return Status::Ok();
}

uint64_t Overwriters::count() const {
  uint64_t sum = 0;
  // Relaxed: see Write.
  for (const Slot& slot : slots_) sum += slot.done.load(std::memory_order_relaxed);
  return sum;
}

Status Overwriters::Stop() {
  stopped_.store(true, std::memory_order_relaxed);  // Relaxed: see Write.
  if (runner_.joinable()) runner_.join();
  return status_;
}

Status RunPacedReads(const SpaceRecords& records, const PacedReads& reads, const GetFn& get,
                     const LoopClock& clock, LatencyHistogram* latency) {
  const RecordDraw draw(DrawShape::kUniform, records.count());
  const auto total = static_cast<uint64_t>(reads.rate * reads.seconds);
  const uint64_t begin_ns = clock.now_ns();
  TimedPoint point;
  const Status status = RunTimed(
      reads.thread_count, kNoLimitSeconds,
      [&](uint32_t thread, TimedThread* self) {
        const uint64_t stream = MixAt(reads.seed ^ kReadStream, thread);
        const Pace pace(reads.rate, reads.thread_count, thread, 1);
        alignas(64) char value[kValueSize];
        self->Start();
        for (uint64_t i = 0; i * reads.thread_count + thread < total && self->Running(); ++i) {
          const uint64_t start_ns = begin_ns + pace.StartNs(i);
          if (clock.now_ns() < start_ns) clock.sleep_until_ns(start_ns);
          const uint64_t key = records.KeyAt(draw.IndexFrom(MixAt(stream, i)));
          ENGINE_RACE_RETURN_IF_ERROR(get(key, value));
          self->tally.latency.Add(clock.now_ns() - start_ns);
          uint64_t version = 0;
          if (!records.values().CheckEnds(key, value, &version)) {
            return Status::Corruption("read: " + KeyFailure(key, "wrong bytes"));
          }
        }
        return Status::Ok();
      },
      &point);
  latency->Merge(point.latency);
  return status;
}

namespace {

void PrintProgress(const WatchShape& shape, const SpaceSamples& samples, double share) {
  const SpaceSample& first = samples.front();
  const SpaceSample& last = samples.back();
  std::fprintf(stderr, "%s: %3.0f %%, %.0f MB/s, space %.2f", shape.label.c_str(),
               100 * std::min(share, 1.0), Megabytes(WriteRate(first, last)),
               Amplification(last.disk_bytes, shape.live_count));
  if (last.log_bytes > 0) {
    std::fprintf(
        stderr, ", written %.2f",
        Amplification(last.log_bytes - first.log_bytes, last.write_count - first.write_count));
  }
  std::fprintf(stderr, "\n");
}

}  // namespace

void to_json(nlohmann::json& json, const SpaceSample& sample) {
  json = {{"seconds", sample.seconds},          {"writes", sample.write_count},
          {"disk_bytes", sample.disk_bytes},    {"log_bytes", sample.log_bytes},
          {"index_bytes", sample.index_bytes},  {"moved_bytes", sample.moved_bytes},
          {"device_bytes", sample.device_bytes}};
}

double Amplification(uint64_t bytes, uint64_t count) {
  if (count == 0) return 0;
  return static_cast<double>(bytes) / static_cast<double>(count * kValueSize);
}

size_t SecondHalf(const SpaceSamples& samples) {
  if (samples.empty()) return 0;
  const uint64_t first = samples.front().write_count;
  const uint64_t middle = first + (samples.back().write_count - first) / 2;
  const auto found = std::find_if(samples.begin(), samples.end(), [middle](const auto& sample) {
    return sample.write_count >= middle;
  });
  return static_cast<size_t>(found - samples.begin());
}

uint64_t PeakDiskBytes(const SpaceSamples& samples) {
  uint64_t peak = 0;
  for (size_t i = SecondHalf(samples); i < samples.size(); ++i) {
    peak = std::max(peak, samples[i].disk_bytes);
  }
  return peak;
}

double WriteRate(const SpaceSample& first, const SpaceSample& last) {
  const double seconds = last.seconds - first.seconds;
  if (seconds <= 0) return 0;
  return static_cast<double>(last.write_count - first.write_count) / seconds;
}

SpaceProbe::SpaceProbe(const std::string& dir, const Store* store, const Overwriters& writers)
    : dir_(dir), store_(store), writers_(writers), device_(dir), begin_ns_(NowNs()) {}

SpaceSample SpaceProbe::Take() const {
  SpaceSample sample;
  sample.disk_bytes = AllocatedBytes(dir_);
  if (store_ != nullptr) {
    const StoreStats stats = store_->Stats();
    sample.log_bytes = stats.log_written_bytes;
    sample.index_bytes = stats.index_written_bytes;
    sample.moved_bytes = stats.reclaim_moved_bytes;
  }
  if (!device_.device().empty()) {
    sample.device_bytes = device_.Read().value_or(DeviceBytes()).written;
  }
  sample.write_count = writers_.count();
  sample.seconds = SecondsSince(begin_ns_);
  return sample;
}

Status WatchWriters(const WatchShape& shape, const Overwriters& writers, const SpaceProbe& probe,
                    SpaceSamples* samples) {
  constexpr double kShareOfLine = 0.1;
  samples->push_back(probe.Take());
  const SpaceSample first = samples->back();
  double printed = 0;
  for (;;) {
    const SpaceSample& last = samples->back();
    const double seconds = last.seconds - first.seconds;
    const double share = std::max(seconds / shape.seconds,
                                  static_cast<double>(last.write_count - first.write_count) /
                                      static_cast<double>(shape.write_count));
    if (!shape.label.empty() && share >= printed + kShareOfLine) {
      PrintProgress(shape, *samples, share);
      printed = share;
    }
    if (last.disk_bytes > shape.most_bytes) {
      return Status(Code::kFull, "the store takes " + std::to_string(last.disk_bytes) +
                                     " bytes of disk, more than the " +
                                     std::to_string(shape.most_bytes) + " of this run");
    }
    if (Interrupted()) return InterruptedStatus();
    if (writers.failed()) return Status::IOError("a write has failed");
    if (share >= 1) return Status::Ok();
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(shape.sample_seconds, shape.seconds - seconds)));
    samples->push_back(probe.Take());
  }
}

Status OverwriteAndWatch(const OverwrittenStore& overwritten, const SpaceRecords& records,
                         const Overwriters::Shape& shape, const std::vector<WatchShape>& watches,
                         SpaceSamples* samples) {
  Overwriters writers(records, shape, overwritten.put);
  const SpaceProbe probe(overwritten.dir, overwritten.store, writers);
  Status watched;
  for (const WatchShape& watch : watches) {
    samples->clear();
    watched = WatchWriters(watch, writers, probe, samples);
    if (!watched.ok()) break;
  }
  // A failed write is why the watch has ended.
  const Status stopped = writers.Stop();
  return stopped.ok() ? watched : stopped;
}

}  // namespace engine_race::harness
