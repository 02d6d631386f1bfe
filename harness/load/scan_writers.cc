#include "harness/load/scan_writers.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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

Status ScanWriters::StartStore(uint32_t writer_count) {
  EndStore();
  ++run_;
  writers_cpu_ns_ = 0;
  ENGINE_RACE_RETURN_IF_ERROR(Store::Open(QuietOptions(), dir_, &store_));
  ENGINE_RACE_RETURN_IF_ERROR(
      WriteRecords(PutInto(store_.get()), filled_, ValueMaker(seed_), writer_count));
  return AwaitIndex(store_.get());
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

namespace {

// A visitor throws this to leave its range.
struct Left {};

constexpr uint32_t kWriters = 8;

}  // namespace

std::string SlowScans::ToString() const {
  return std::to_string(count) + " visits of " + std::to_string(visit.count()) + " ms, " +
         std::to_string(memory_budget_bytes >> 20) + " MiB";
}

Status ScanGap::Open(uint64_t memory_budget_bytes) {
  store_.reset();
  Options options = QuietOptions();
  options.bucket_count = shape_.bucket_count;
  options.file_count = std::min(options.file_count, shape_.bucket_count);
  options.memory_budget_bytes = memory_budget_bytes;
  // Ranges get all the memory.
  options.hot_value_bytes = 0;
  return Store::Open(options, shape_.dir, &store_);
}

Status ScanGap::Prepare() {
  ENGINE_RACE_RETURN_IF_ERROR(Open(QuietOptions().memory_budget_bytes));
  return WriteRecords(PutInto(store_.get()),
                      KeySource(KeyShape::kUniform, shape_.record_count, shape_.seed),
                      ValueMaker(shape_.seed), kWriters);
}

Status ScanGap::ScanSlowly(const SlowScans& slow, uint32_t number, TimedThread* self,
                           const std::atomic<bool>& stop, std::atomic<uint64_t>* visits) {
  const KeyBytes from(~uint64_t{0} / slow.count * number);
  try {
    while (!stop && self->Running()) {
      ENGINE_RACE_RETURN_IF_ERROR(
          store_->Range(from.view(), "", [&](std::string_view, std::string_view) {
            ++*visits;
            std::this_thread::sleep_for(slow.visit);
            if (stop || !self->Running()) throw Left();
          }));
    }
  } catch (const Left&) {
  }
  return Status::Ok();
}

Status ScanGap::ScanFast(FastScan* fast) {
  const uint64_t began_ns = NowNs();
  const uint64_t end_ns = began_ns + static_cast<uint64_t>(shape_.seconds * 1e9);
  uint64_t last_ns = began_ns;
  uint64_t visits = 0;
  const auto look = [&] {
    const uint64_t now_ns = NowNs();
    fast->longest_gap_ns = std::max(fast->longest_gap_ns, now_ns - last_ns);
    last_ns = now_ns;
    return now_ns;
  };
  try {
    while (look() < end_ns) {
      ENGINE_RACE_RETURN_IF_ERROR(store_->Range("", "", [&](std::string_view, std::string_view) {
        ++visits;
        if (look() >= end_ns) throw Left();
      }));
    }
  } catch (const Left&) {
  }
  fast->records_per_second = static_cast<double>(visits) / SecondsSince(began_ns);
  return Status::Ok();
}

Status ScanGap::Run(const SlowScans& slow, bool alone, FastScan* fast) {
  *fast = FastScan();
  ENGINE_RACE_RETURN_IF_ERROR(Open(slow.memory_budget_bytes));
  ENGINE_RACE_RETURN_IF_ERROR(AwaitIndex(store_.get()));
  const uint32_t slow_count = alone ? 0 : slow.count;
  std::atomic<bool> stop{false};
  std::vector<std::atomic<uint64_t>> visits(slow_count);
  const auto scan = [&](uint32_t thread, TimedThread* self) {
    self->Start();
    if (thread < slow_count) return ScanSlowly(slow, thread, self, stop, &visits[thread]);
    const auto has_not_begun = [](const std::atomic<uint64_t>& count) { return count == 0; };
    while (std::any_of(visits.begin(), visits.end(), has_not_begun) && self->Running()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(shape_.warm_up_seconds));
    Status status = ScanFast(fast);
    stop = true;
    return status;
  };
  TimedPoint point;
  ENGINE_RACE_RETURN_IF_ERROR(RunTimed(slow_count + 1, kNoLimitSeconds, scan, &point));
  uint64_t sum = 0;
  for (const std::atomic<uint64_t>& count : visits) sum += count;
  if (slow_count > 0) {
    fast->slow_visits_per_second = static_cast<double>(sum) / slow_count / point.seconds;
  }
  return Status::Ok();
}

}  // namespace engine_race::harness
