#include "harness/load/scan_writers.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_runs.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {
namespace {

// Counts a writer out when its thread leaves it, also by an exception.
struct WriterLeaves {
  std::atomic<uint32_t>& left;
  ~WriterLeaves() { --left; }
};

}  // namespace

ScanWriters::ScanWriters(std::string dir, uint64_t record_count, uint64_t seed)
    : dir_(std::move(dir)),
      record_count_(record_count),
      seed_(seed),
      filled_(KeyShape::kUniform, record_count / 4, seed) {}

ScanWriters::~ScanWriters() { EndStore(); }

Status ScanWriters::StartStore(uint32_t writer_count) {
  EndStore();
  ++run_;
  writers_cpu_ns_ = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(QuietOptions(), dir_, &store_));
  TimedPoint unused;
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteRecords(PutInto(store_.get()), filled_, ValueMaker(seed_), writer_count, &unused));
  Snapshot builds_the_index;
  return store_->GetSnapshot(&builds_the_index);
}

void ScanWriters::EndStore() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

Status ScanWriters::Write(uint64_t key_count, uint64_t count, const std::atomic<bool>& ended,
                          uint32_t thread, TimedThread* self) {
  // Reading the clock costs a part of a write, so one write in this many is timed.
  constexpr uint64_t kWritesPerLook = 8;
  // Made once, so that making it is not measured.
  char value[kValueSize];
  ValueMaker(thread).Fill(thread, 1, value);
  const uint64_t stream = Mix64(seed_ + run_) + thread;
  const uint64_t began_cpu_ns = ThreadCpuNs();
  for (uint64_t& i = self->tally.request_count; i < count && !ended; ++i) {
    const KeyBytes key(filled_.KeyAt(AsBelow(MixAt(stream, i), key_count)));
    const uint64_t start_ns = i % kWritesPerLook == 0 ? NowNs() : 0;
    ENGINE_RACE_RETURN_IF_ERROR(store_->Write(key.view(), {value, kValueSize}));
    if (start_ns == 0) continue;
    const uint64_t now_ns = NowNs();
    self->tally.latency.Add(now_ns - start_ns);
    if (!self->Running(now_ns)) break;
  }
  writers_cpu_ns_ += ThreadCpuNs() - began_cpu_ns;
  return Status::Ok();
}

Status ScanWriters::Scan(const std::atomic<uint32_t>& left, std::atomic<bool>* began,
                         uint64_t* visited_count) {
  IteratorOptions options;
  options.prefetch_records = 64;
  Iterator iterator;
  Status status = store_->NewIterator(options, &iterator);
  while (status.ok() && left > 0) {
    uint64_t walked = 0;
    for (iterator.SeekToFirst(); iterator.Valid() && left > 0; iterator.Next()) {
      if (iterator.value().size() != kValueSize) break;
      // Once a pass: the writers read words that lie beside this one.
      if (++walked == 1) *began = true;
    }
    *visited_count += walked;
    status = iterator.status();
    if (left == 0 || !status.ok()) break;
    // Overwrites add and remove no keys.
    const bool is_whole = walked == filled_.record_count();
    status = is_whole ? iterator.Refresh()
                      : Status::Corruption("a scan saw " + std::to_string(walked) + " records");
  }
  *began = true;
  return status;
}

Status ScanWriters::Overwrite(uint32_t writer_count, bool scanning, WriterCost* cost) {
  *cost = WriterCost();
  std::atomic<uint32_t> left{writer_count};
  std::atomic<bool> began{!scanning};
  const std::atomic<bool> never{false};
  const uint64_t share = (record_count_ - filled_.record_count()) / writer_count;
  const auto body = [&](uint32_t thread, TimedThread* self) {
    self->Start();
    if (thread == writer_count) return Scan(left, &began, &cost->visited_count);
    const WriterLeaves leaves{left};
    while (!began && self->Running()) std::this_thread::yield();
    return Write(filled_.record_count(), share, never, thread, self);
  };
  TimedPoint point;
  Status status = StartStore(writer_count);
  if (status.ok()) {
    status = RunTimed(writer_count + (scanning ? 1 : 0), kNoLimitSeconds, body, &point);
  }
  EndStore();
  cost->cpu_ns = static_cast<double>(writers_cpu_ns_) /
                 static_cast<double>(std::max<uint64_t>(point.request_count, 1));
  cost->p99_ns = point.latency.PercentileNs(0.99);
  cost->writes_per_second = point.RequestsPerSecond();
  return status;
}

Status ScanWriters::TakeUntil(const std::atomic<bool>& ended, uint64_t wanted, uint64_t* taken,
                              SnapshotCost* sum) {
  constexpr uint64_t kSnapshotsPerLook = 10000;
  const uint64_t cpu_ns = ThreadCpuNs();
  const uint64_t start_ns = NowNs();
  do {
    for (uint64_t i = 0; i < kSnapshotsPerLook; ++i) {
      Snapshot snapshot;
      ENGINE_RACE_RETURN_IF_ERROR(store_->GetSnapshot(&snapshot));
    }
    *taken += kSnapshotsPerLook;
  } while (*taken < wanted && !ended);
  sum->wall_ns += static_cast<double>(NowNs() - start_ns);
  sum->cpu_ns += static_cast<double>(ThreadCpuNs() - cpu_ns);
  return Status::Ok();
}

Status ScanWriters::TakeSnapshots(uint32_t writer_count, uint64_t count, SnapshotCost* cost) {
  *cost = SnapshotCost();
  const uint64_t share = (record_count_ - filled_.record_count()) / writer_count;
  uint64_t taken = 0;
  TimedPoint sum;
  Status status;
  while (status.ok() && taken < count) {
    std::atomic<bool> ended{false};
    const auto body = [&](uint32_t thread, TimedThread* self) {
      self->Start();
      Status done = thread < writer_count ? Write(record_count_, share, ended, thread, self)
                                          : TakeUntil(ended, count, &taken, cost);
      ended = true;
      return done;
    };
    TimedPoint point;
    status = StartStore(writer_count);
    if (status.ok()) status = RunTimed(writer_count + 1, kNoLimitSeconds, body, &point);
    sum.request_count += point.request_count;
    sum.seconds += point.seconds;
  }
  EndStore();
  ENGINE_RACE_RETURN_IF_ERROR(status);
  cost->wall_ns /= static_cast<double>(taken);
  cost->cpu_ns /= static_cast<double>(taken);
  cost->writes_per_second = sum.RequestsPerSecond();
  return Status::Ok();
}

}  // namespace engine_race::harness
