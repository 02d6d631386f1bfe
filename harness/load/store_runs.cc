#include "harness/load/store_runs.h"

#include <filesystem>
#include <random>
#include <string_view>
#include <vector>

#include "harness/data/mix.h"
#include "harness/load/read_loops.h"
#include "harness/measure/timed.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

namespace {

// The time of a warm-up over the measured time.
constexpr double kWarmUpShare = 0.5;

// Wall and CPU time since its construction.
class Watch {
 public:
  double seconds() const { return SecondsSince(began_ns_); }
  double cpu_seconds() const { return CpuSeconds() - began_cpu_s_; }

 private:
  const uint64_t began_ns_ = NowNs();
  const double began_cpu_s_ = CpuSeconds();
};

}  // namespace

uint64_t StoreRuns::KeyAt(uint64_t index) const {
  return Mix64(shape_.seed * 0x9e3779b97f4a7c15 + index);
}

void StoreRuns::Remove(const Options& options) {
  std::filesystem::remove_all(shape_.dir);
  for (const std::string& path : options.paths) std::filesystem::remove_all(path);
}

TimedRun StoreRuns::Ended(TimedRun run, const Failures& failures) {
  return failures.any() ? Failed(failures.first()) : run;
}

TimedRun StoreRuns::Failed(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  return TimedRun();
}

TimedRun StoreRuns::Write(const Options& options, uint32_t thread_count, double* close_seconds) {
  Remove(options);
  if (!shape_.cache_dir.empty()) DropPageCache(shape_.cache_dir);
  Failures failures;
  const Watch watch;
  std::unique_ptr<Store> store;
  const Status opened = Store::Open(options, shape_.dir, &store);
  if (!opened.ok()) {
    failures.Note("open: " + opened.ToString());
    return Ended({}, failures);
  }
  RunWorkers(thread_count, &failures, [&](uint32_t thread) {
    std::string value(kValueSize, '\0');
    for (uint64_t i = thread; i < shape_.record_count && !failures.any(); i += thread_count) {
      values_.Fill(KeyAt(i), 1, value.data());
      const Status status = store->Write(KeyBytesOf(KeyAt(i)), value);
      if (!status.ok()) failures.Note("write: " + status.ToString());
    }
  });
  const Watch closing;
  store.reset();
  if (close_seconds != nullptr) *close_seconds = closing.seconds();
  return Ended({shape_.record_count, watch.seconds(), watch.cpu_seconds()}, failures);
}

std::unique_ptr<Store> StoreRuns::OpenToRead(const Options& options) {
  if (!shape_.cache_dir.empty()) DropPageCache(shape_.cache_dir);
  std::unique_ptr<Store> store;
  std::string value;
  Status status = Store::Open(options, shape_.dir, &store);
  // Builds the index, which is not measured.
  if (status.ok()) status = store->Read(KeyBytesOf(KeyAt(0)), &value);
  if (status.ok()) return store;
  Failed("open and read: " + status.ToString());
  return nullptr;
}

template <typename ReadFn>
TimedRun StoreRuns::TimedReads(const Options& options, uint32_t thread_count, double seconds,
                               const ReadFn& read) {
  const std::unique_ptr<Store> store = OpenToRead(options);
  if (store == nullptr) return TimedRun();
  TimedRun run;
  uint64_t seed = shape_.seed;
  // The warm-up touches the memory of buffers, sketch and frames, as fio does before its clock
  // starts. Each run draws other keys.
  for (const double run_seconds : {seconds * kWarmUpShare, seconds}) {
    const uint64_t hits_before = store->Stats().frame_hit_count;
    TimedPoint point;
    const Status status = RunTimed(
        thread_count, run_seconds,
        [&](uint32_t thread, TimedThread* self) {
          std::mt19937_64 random(seed + thread);
          const auto key_at = [&](uint64_t) { return KeyAt(random() % shape_.record_count); };
          self->Start();
          return read(store.get(), key_at, self);
        },
        &point);
    if (!status.ok()) return Failed("read: " + status.ToString());
    run = {point.request_count, point.seconds, point.cpu_seconds,
           store->Stats().frame_hit_count - hits_before};
    seed += thread_count;
  }
  return run;
}

TimedRun StoreRuns::Read(const Options& options, uint32_t thread_count, double seconds) {
  const auto read = [this](Store* store, const auto& key_at, TimedThread* self) {
    const auto more = [self](uint64_t i) { return i % kReadsPerClockLook != 0 || self->Running(); };
    return ReadOneByOne(store, values_, key_at, more, &self->tally.request_count);
  };
  return TimedReads(options, thread_count, seconds, read);
}

TimedRun StoreRuns::MultiRead(const Options& options, uint32_t thread_count, uint32_t keys_per_call,
                              double seconds) {
  const auto read = [&](Store* store, const auto& key_at, TimedThread* self) {
    const auto more = [&](uint64_t i) { return i % keys_per_call != 0 || self->Running(); };
    return ReadMany(store, values_, keys_per_call, key_at, more, &self->tally.request_count);
  };
  return TimedReads(options, thread_count, seconds, read);
}

TimedRun StoreRuns::RangeOnce(Store* store, uint32_t thread_count) {
  Failures failures;
  const Watch watch;
  RunWorkers(thread_count, &failures, [&](uint32_t) {
    uint64_t count = 0;
    const Status status =
        store->Range("", "", [&count](std::string_view, std::string_view) { ++count; });
    if (!status.ok() || count != shape_.record_count) {
      failures.Note("range: " + status.ToString() + ", " + std::to_string(count) + " records");
    }
  });
  return Ended({shape_.record_count, watch.seconds(), watch.cpu_seconds()}, failures);
}

std::vector<TimedRun> StoreRuns::Ranges(const Options& options, uint32_t thread_count,
                                        uint32_t pass_count) {
  std::vector<TimedRun> passes(pass_count);
  const std::unique_ptr<Store> store = OpenToRead(options);
  if (store == nullptr) return passes;
  for (TimedRun& pass : passes) pass = RangeOnce(store.get(), thread_count);
  return passes;
}

}  // namespace harness
