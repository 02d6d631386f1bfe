#include "harness/load/store_runs.h"

#include <atomic>
#include <filesystem>
#include <random>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {

using engine_race::Options;
using engine_race::Status;
using engine_race::Store;

namespace {

// One in so many of the values read is looked at.
constexpr uint32_t kLooks = 8;

// A warm-up lasts so much of the time that is measured.
constexpr double kWarmUpShare = 0.5;

// Wall and CPU time since it was made.
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

bool StoreRuns::IsRight(uint64_t key, const std::string& value) const {
  uint64_t version = 0;
  return value.size() == kValueSize && values_.CheckEnds(key, value.data(), &version);
}

void StoreRuns::Remove(const Options& options) {
  std::filesystem::remove_all(shape_.dir);
  for (const std::string& path : options.paths) std::filesystem::remove_all(path);
}

TimedRun StoreRuns::Ended(TimedRun run, const Failures& failures) {
  if (!failures.any()) return run;
  if (failure_.empty()) failure_ = failures.first();
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
  Failures failures;
  std::string value;
  Status status = Store::Open(options, shape_.dir, &store);
  // Builds the index, which is not what is measured.
  if (status.ok()) status = store->Read(KeyBytesOf(KeyAt(0)), &value);
  if (status.ok()) return store;
  failures.Note("open and read: " + status.ToString());
  Ended({}, failures);
  return nullptr;
}

template <typename ReadFn>
TimedRun StoreRuns::TimedReads(const Options& options, uint32_t thread_count, double seconds,
                               const ReadFn& read) {
  const std::unique_ptr<Store> store = OpenToRead(options);
  if (store == nullptr) return TimedRun();
  Failures failures;
  TimedRun run;
  uint64_t seed = shape_.seed;
  // The first reads touch the memory of buffers, sketch and frames, as fio does before its clock
  // starts. Each run draws other keys.
  for (const double run_seconds : {seconds * kWarmUpShare, seconds}) {
    std::atomic<uint64_t> total{0};
    const uint64_t hits_before = store->Stats().frame_hit_count;
    const Watch watch;
    RunWorkers(thread_count, &failures, [&](uint32_t thread) {
      const auto goes_on = [&] { return watch.seconds() < run_seconds && !failures.any(); };
      total += read(store.get(), seed + thread, goes_on, &failures);
    });
    run = {total, watch.seconds(), watch.cpu_seconds(),
           store->Stats().frame_hit_count - hits_before};
    seed += thread_count;
  }
  return Ended(run, failures);
}

TimedRun StoreRuns::Read(const Options& options, uint32_t thread_count, double seconds) {
  const auto read = [this](Store* store, uint64_t seed, const auto& goes_on, Failures* failures) {
    std::mt19937_64 random(seed);
    std::string value;
    uint64_t count = 0;
    // The clock is looked at now and then: it costs more than what is done with it.
    constexpr uint64_t kReadsPerLook = 32;
    while (count % kReadsPerLook != 0 || goes_on()) {
      const uint64_t key = KeyAt(random() % shape_.record_count);
      char key_bytes[engine_race::kKeyBytes];
      engine_race::EncodeKey(key, key_bytes);
      const Status status = store->Read({key_bytes, sizeof(key_bytes)}, &value);
      // Of the values one in eight, as MultiRead's: their costs are compared.
      if (!status.ok() || (count % kLooks == 0 && !IsRight(key, value))) {
        failures->Note("read: " + status.ToString());
      }
      ++count;
    }
    return count;
  };
  return TimedReads(options, thread_count, seconds, read);
}

TimedRun StoreRuns::MultiRead(const Options& options, uint32_t thread_count, uint32_t keys_per_call,
                              double seconds) {
  const auto read = [&](Store* store, uint64_t seed, const auto& goes_on, Failures* failures) {
    return ReadMany(store, seed, keys_per_call, goes_on, failures);
  };
  return TimedReads(options, thread_count, seconds, read);
}

template <typename GoesOnFn>
uint64_t StoreRuns::ReadMany(Store* store, uint64_t seed, uint32_t keys_per_call,
                             const GoesOnFn& goes_on, Failures* failures) const {
  std::mt19937_64 random(seed);
  std::vector<uint64_t> numbers(keys_per_call);
  std::vector<char> bytes(size_t{keys_per_call} * engine_race::kKeyBytes);
  std::vector<std::string_view> keys;
  for (uint32_t i = 0; i < keys_per_call; ++i) {
    keys.emplace_back(bytes.data() + size_t{i} * engine_race::kKeyBytes, engine_race::kKeyBytes);
  }
  std::vector<std::string> values(keys_per_call);
  std::vector<Status> statuses(keys_per_call);
  uint64_t count = 0;
  uint32_t call = 0;
  while (goes_on()) {
    for (uint32_t i = 0; i < keys_per_call; ++i) {
      numbers[i] = KeyAt(random() % shape_.record_count);
      engine_race::EncodeKey(numbers[i], bytes.data() + size_t{i} * engine_race::kKeyBytes);
    }
    const Status status = store->MultiRead(keys, values, statuses);
    if (!status.ok()) failures->Note("MultiRead: " + status.ToString());
    // Of the values one in eight, others each time: to look at a value is to bring it into the
    // cache, and who reads one by one has it there already.
    for (uint32_t i = 0; i < keys_per_call; ++i) {
      const bool looks = (i + call) % kLooks == 0;
      if (!statuses[i].ok() || (looks && !IsRight(numbers[i], values[i]))) {
        failures->Note("MultiRead: " + statuses[i].ToString());
      }
    }
    ++call;
    count += keys_per_call;
  }
  return count;
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
