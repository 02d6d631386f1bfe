#include "harness/load/scan_gap.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "harness/data/key_source.h"
#include "harness/data/mix.h"
#include "harness/data/value_maker.h"
#include "harness/load/store_runs.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// A visitor throws this to leave its range.
struct Left {};

constexpr uint32_t kWriters = 8;

}  // namespace

ScanGap::~ScanGap() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(shape_.dir, ignored);
}

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
  ENGINE_RACE_RETURN_IF_ERROR(Open(Options().memory_budget_bytes));
  TimedPoint unused;
  return WriteRecords(PutInto(store_.get()),
                      KeySource(KeyShape::kUniform, shape_.record_count, shape_.seed),
                      ValueMaker(shape_.seed), kWriters, &unused);
}

Status ScanGap::ScanSlowly(const SlowScans& slow, uint32_t number, TimedThread* self,
                           const std::atomic<bool>& stop, std::atomic<uint64_t>* visits) {
  const std::string from = KeyBytesOf(~uint64_t{0} / slow.count * number);
  try {
    while (!stop && self->Running()) {
      ENGINE_RACE_RETURN_IF_ERROR(store_->Range(from, "", [&](std::string_view, std::string_view) {
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
  // Builds the index, so that no scan waits for it.
  std::string value;
  ENGINE_RACE_RETURN_IF_ERROR(store_->Read(KeyBytesOf(MixAt(shape_.seed, 0)), &value));
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
