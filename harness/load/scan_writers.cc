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

namespace harness {

using engine_race::Iterator;
using engine_race::IteratorOptions;
using engine_race::Snapshot;
using engine_race::Status;
using engine_race::Store;

namespace {

constexpr uint32_t kScanPrefetch = 64;

// A value that is made once, so that making it is not measured.
class OneRecord {
 public:
  explicit OneRecord(uint64_t thread) : value_(kValueSize, '\0') {
    ValueMaker(thread).Fill(thread, 1, value_.data());
  }
  Status WriteTo(Store* store, uint64_t key) {
    engine_race::EncodeKey(key, key_bytes_);
    return store->Write({key_bytes_, sizeof(key_bytes_)}, value_);
  }

 private:
  char key_bytes_[engine_race::kKeyBytes];
  std::string value_;
};

}  // namespace

struct ScanWriters::WriterSums {
  uint64_t write_count = 0;
  uint64_t cpu_ns = 0;
  engine_race::LatencyHistogram latency;
};

ScanWriters::ScanWriters(std::string dir, uint64_t record_count, uint64_t seed)
    : dir_(std::move(dir)),
      record_count_(record_count),
      seed_(seed),
      filled_count_(record_count / 4) {}

ScanWriters::~ScanWriters() { EndStore(); }

bool ScanWriters::StartStore() {
  EndStore();
  ++run_;
  const Status opened = Store::Open(QuietOptions(), dir_, &store_);
  if (!opened.ok()) failures_.Note("open: " + opened.ToString());
  return opened.ok();
}

void ScanWriters::EndStore() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

uint64_t ScanWriters::KeyAt(uint64_t index) const { return MixAt(seed_, index); }

void ScanWriters::Fill(uint32_t thread, uint32_t thread_count) {
  OneRecord record(thread);
  for (uint64_t i = thread; i < filled_count_ && !failures_.any(); i += thread_count) {
    const Status status = record.WriteTo(store_.get(), KeyAt(i));
    if (!status.ok()) failures_.Note("fill: " + status.ToString());
  }
}

void ScanWriters::OverwriteSome(uint32_t thread, uint64_t count, WriterSums* sums) {
  // Reading the clock costs a part of a write, so one write in this many is timed.
  constexpr uint64_t kWritesPerLook = 8;
  OneRecord record(thread);
  const uint64_t stream = Mix64(seed_ + run_) + thread;
  const uint64_t began_cpu_ns = ThreadCpuNs();
  for (uint64_t i = 0; i < count && !failures_.any(); ++i) {
    const uint64_t key = KeyAt(AsBelow(MixAt(stream, i), filled_count_));
    const bool looks = i % kWritesPerLook == 0;
    const uint64_t start_ns = looks ? NowNs() : 0;
    const Status status = record.WriteTo(store_.get(), key);
    if (looks) sums->latency.Add(NowNs() - start_ns);
    if (!status.ok()) failures_.Note("write: " + status.ToString());
  }
  sums->cpu_ns = ThreadCpuNs() - began_cpu_ns;
  sums->write_count = count;
}

uint64_t ScanWriters::Scan(const std::atomic<uint32_t>& left, std::atomic<bool>* began) {
  IteratorOptions options;
  options.prefetch_records = kScanPrefetch;
  Iterator iterator;
  Status status = store_->NewIterator(options, &iterator);
  uint64_t visited = 0;
  while (status.ok() && left > 0 && !failures_.any()) {
    uint64_t walked = 0;
    for (iterator.SeekToFirst(); iterator.Valid() && left > 0; iterator.Next()) {
      if (iterator.value().size() != kValueSize) break;
      ++walked;
      *began = true;
    }
    visited += walked;
    status = iterator.status();
    if (left == 0 || !status.ok()) break;
    // Overwrites add and remove no keys.
    if (walked != filled_count_) status = Status::Corruption(std::to_string(walked) + " records");
    if (status.ok()) status = iterator.Refresh();
  }
  if (!status.ok()) failures_.Note("scan: " + status.ToString());
  *began = true;
  return visited;
}

WriterCost ScanWriters::Overwrite(uint32_t writer_count, bool scanning) {
  WriterCost cost;
  if (!StartStore()) return cost;
  RunWorkers(writer_count, &failures_, [&](uint32_t thread) { Fill(thread, writer_count); });
  std::string value;
  const Status read = store_->Read(KeyBytesOf(KeyAt(0)), &value);
  if (!read.ok()) failures_.Note("read: " + read.ToString());
  std::vector<WriterSums> sums(writer_count);
  const uint64_t count = (record_count_ - filled_count_) / writer_count;
  std::atomic<uint32_t> left{writer_count};
  std::atomic<bool> began{!scanning};
  const uint64_t start_ns = NowNs();
  RunWorkers(writer_count + (scanning ? 1 : 0), &failures_, [&](uint32_t thread) {
    if (thread == writer_count) {
      cost.visited_count = Scan(left, &began);
      return;
    }
    while (!began) std::this_thread::yield();
    OverwriteSome(thread, count, &sums[thread]);
    --left;
  });
  WriterSums all;
  for (const WriterSums& one : sums) {
    all.write_count += one.write_count;
    all.cpu_ns += one.cpu_ns;
    all.latency.Merge(one.latency);
  }
  const double writes = static_cast<double>(std::max<uint64_t>(all.write_count, 1));
  cost.cpu_ns = static_cast<double>(all.cpu_ns) / writes;
  cost.p99_ns = all.latency.PercentileNs(0.99);
  cost.writes_per_second = writes / SecondsSince(start_ns);
  EndStore();
  return cost;
}

uint64_t ScanWriters::WriteUntil(uint32_t thread, uint64_t count, std::atomic<bool>* ended) {
  OneRecord record(thread);
  const uint64_t stream = Mix64(seed_ + run_) + thread;
  uint64_t written = 0;
  for (; written < count && !*ended && !failures_.any(); ++written) {
    const uint64_t key = KeyAt(AsBelow(MixAt(stream, written), record_count_));
    const Status status = record.WriteTo(store_.get(), key);
    if (!status.ok()) failures_.Note("write: " + status.ToString());
  }
  *ended = true;
  return written;
}

void ScanWriters::TakeUntil(const std::atomic<bool>& ended, uint64_t wanted, uint64_t* taken,
                            SnapshotCost* sum) {
  constexpr uint64_t kSnapshotsPerLook = 10000;
  const uint64_t cpu_ns = ThreadCpuNs();
  const uint64_t start_ns = NowNs();
  do {
    for (uint64_t i = 0; i < kSnapshotsPerLook; ++i) {
      Snapshot snapshot;
      const Status status = store_->GetSnapshot(&snapshot);
      if (!status.ok()) return failures_.Note("snapshot: " + status.ToString());
    }
    *taken += kSnapshotsPerLook;
  } while (*taken < wanted && !ended && !failures_.any());
  sum->wall_ns += static_cast<double>(NowNs() - start_ns);
  sum->cpu_ns += static_cast<double>(ThreadCpuNs() - cpu_ns);
}

SnapshotCost ScanWriters::TakeSnapshots(uint32_t writer_count, uint64_t count) {
  SnapshotCost cost;
  uint64_t taken = 0;
  std::atomic<uint64_t> written{0};
  double seconds = 0;
  while (taken < count && StartStore() && !failures_.any()) {
    // The first write to a bucket grows files, which would delay the writers later.
    RunWorkers(writer_count, &failures_, [&](uint32_t thread) { Fill(thread, writer_count); });
    // Builds the index.
    Snapshot first;
    const Status status = store_->GetSnapshot(&first);
    if (!status.ok()) failures_.Note("snapshot: " + status.ToString());
    first.Release();
    std::atomic<bool> ended{false};
    std::atomic<uint32_t> waiting{writer_count};
    uint64_t start_ns = 0;
    RunWorkers(writer_count + 1, &failures_, [&](uint32_t thread) {
      if (thread < writer_count) {
        --waiting;
        written += WriteUntil(thread, (record_count_ - filled_count_) / writer_count, &ended);
        return;
      }
      while (waiting > 0) std::this_thread::yield();
      start_ns = NowNs();
      TakeUntil(ended, count, &taken, &cost);
      ended = true;
    });
    seconds += SecondsSince(start_ns);
  }
  EndStore();
  if (taken == 0) return SnapshotCost();
  cost.wall_ns /= static_cast<double>(taken);
  cost.cpu_ns /= static_cast<double>(taken);
  cost.writes_per_second = static_cast<double>(written) / seconds;
  return cost;
}

}  // namespace harness
