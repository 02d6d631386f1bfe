#include "harness/claims/space_loops.h"

#include <time.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "harness/data/mix.h"
#include "harness/system/child_process.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::LatencyHistogram;
using engine_race::Status;

constexpr uint64_t kWriteStream = 0x7772697465;

// A thread that waits for its turn looks this often whether it should end.
constexpr uint64_t kMostSleepNs = 100'000'000;

// `ns` is of NowNs, whose clock is CLOCK_MONOTONIC.
void SleepUntil(uint64_t ns) {
  const timespec when = {static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr);
}

Status StatusOf(const Failures& failures) {
  return failures.any() ? Status::IOError(failures.first()) : Status::Ok();
}

}  // namespace

LoopClock SteadyClock() { return {NowNs, SleepUntil}; }

Status FillRecords(const SpaceRecords& records, uint32_t thread_count, const PutFn& put,
                   double* rate) {
  Failures failures;
  const uint64_t begin_ns = NowNs();
  RunWorkers(thread_count, &failures, [&](uint32_t thread) {
    alignas(64) char value[kValueSize];
    for (uint64_t i = thread; i < records.count(); i += thread_count) {
      if (failures.any() || Interrupted()) return;
      const uint64_t key = records.KeyAt(i);
      records.values().Fill(key, 0, value);
      const Status status = put(key, value);
      if (!status.ok()) failures.Note("fill: " + status.ToString());
    }
  });
  *rate = static_cast<double>(records.count()) / SecondsSince(begin_ns);
  if (Interrupted()) return Status(engine_race::Code::kIncomplete, "interrupted");
  return StatusOf(failures);
}

Overwriters::Overwriters(const SpaceRecords& records, const Shape& shape, PutFn put)
    : records_(records),
      shape_(shape),
      draw_(shape.draw, records.count()),
      put_(std::move(put)),
      begin_ns_(NowNs()),
      slots_(shape.thread_count) {
  threads_.reserve(shape.thread_count);
  for (uint32_t i = 0; i < shape.thread_count; ++i) {
    threads_.emplace_back([this, i] { Write(i); });
  }
}

Overwriters::~Overwriters() { (void)Stop(); }

void Overwriters::Write(uint32_t thread) {
  const uint64_t stream = MixAt(shape_.seed ^ kWriteStream, thread);
  const Pace pace(shape_.rate, shape_.thread_count, thread, 1);
  alignas(64) char value[kValueSize];
  // Relaxed: only asks the thread to end soon; joining it orders the rest.
  const auto is_over = [&] { return stopped_.load(std::memory_order_relaxed) || failures_.any(); };
  for (uint64_t i = 0; !is_over(); ++i) {
    if (pace.has_rate()) {
      const uint64_t start_ns = begin_ns_ + pace.StartNs(i);
      while (NowNs() < start_ns && !is_over()) {
        SleepUntil(std::min(start_ns, NowNs() + kMostSleepNs));
      }
      if (is_over()) return;
    }
    const uint64_t key = records_.KeyAt(draw_.IndexFrom(MixAt(stream, i)));
    records_.values().Fill(key, i + 1, value);
    const Status status = put_(key, value);
    if (!status.ok()) {
      failures_.Note("overwrite: " + status.ToString());
      return;
    }
    // Relaxed: a reader of the sum needs no order, and only this thread writes the slot.
    slots_[thread].done.store(i + 1, std::memory_order_relaxed);
  }
}

uint64_t Overwriters::count() const {
  uint64_t sum = 0;
  // Relaxed: see Write.
  for (const Slot& slot : slots_) sum += slot.done.load(std::memory_order_relaxed);
  return sum;
}

Status Overwriters::Stop() {
  stopped_.store(true, std::memory_order_relaxed);  // Relaxed: see Write.
  threads_.clear();
  return StatusOf(failures_);
}

Status RunPacedReads(const SpaceRecords& records, const PacedReads& reads, const GetFn& get,
                     const LoopClock& clock, LatencyHistogram* latency) {
  Failures failures;
  std::mutex mutex;
  const RecordDraw draw(DrawShape::kUniform, records.count());
  const auto total = static_cast<uint64_t>(reads.rate * reads.seconds);
  const uint64_t begin_ns = clock.now_ns();
  RunWorkers(reads.thread_count, &failures, [&](uint32_t thread) {
    const uint64_t stream = MixAt(reads.seed ^ kReadStream, thread);
    const Pace pace(reads.rate, reads.thread_count, thread, 1);
    LatencyHistogram own;
    alignas(64) char value[kValueSize];
    for (uint64_t i = 0; i * reads.thread_count + thread < total; ++i) {
      if (failures.any() || Interrupted()) break;
      const uint64_t start_ns = begin_ns + pace.StartNs(i);
      if (clock.now_ns() < start_ns) clock.sleep_until_ns(start_ns);
      const uint64_t key = records.KeyAt(draw.IndexFrom(MixAt(stream, i)));
      const Status status = get(key, value);
      own.Add(clock.now_ns() - start_ns);
      uint64_t version = 0;
      if (!status.ok()) {
        failures.Note("read: " + status.ToString());
      } else if (!records.values().CheckEnds(key, value, &version)) {
        failures.Note("read: " + KeyFailure(key, "wrong bytes"));
      }
    }
    const std::lock_guard lock(mutex);
    latency->Merge(own);
  });
  return StatusOf(failures);
}

}  // namespace harness
