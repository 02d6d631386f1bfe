#include "harness/compare/contest.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/bench/timeline.h"
#include "harness/data/mix.h"
#include "harness/load/contest_phases.h"

namespace engine_race::harness {
namespace {

constexpr uint64_t kOpenStream = 0x6f70656e;

// Calls of any store. Some visit so few records a second that each look at the clock counts.
class KvCalls {
 public:
  static constexpr uint64_t kVisitsPerLook = 64;

  explicit KvCalls(KvStore* store) : store_(store), value_(store->value_bytes()) {}

  Status Write(uint64_t key, const char* value) { return store_->Put(key, value); }
  Status Read(uint64_t key, const char** value) {
    *value = value_.data();
    return store_->Get(key, value_.data());
  }
  template <typename Visit>
  Status Range(const Visit& visit) {
    return store_->ScanAll([&](uint64_t key, const char* value) {
      visit(KeyBytes(key).view(), std::string_view(value, value_.size()));
    });
  }

 private:
  KvStore* const store_;
  std::vector<char> value_;
};

Status NothingToRead() { return Status::InvalidArgument("the store has no records to read"); }

bool IsWriting(const CompareOrder& order) {
  return order.phase == kWritePhase || order.phase == kWriteRestPhase;
}

uint64_t ReadsOfThread(const CompareOrder& order) {
  return std::max<uint64_t>(order.record_count / order.thread_count, 1);
}

}  // namespace

Contest::Contest(const CompareOrder& order)
    : order_(order),
      keys_(KeyShape::kUniform, order.record_count, order.seed),
      values_(order.seed, order.value_bytes) {
  if (order.phase == kRangePhase) {
    expected_ = KeySource(KeyShape::kUniform, order.written_count, order.seed).Summarize();
  }
}

uint64_t Contest::OperationCount() const {
  if (order_.phase == kWritePhase) return order_.record_count;
  if (order_.phase == kWriteRestPhase) return order_.record_count - order_.written_count;
  if (order_.phase == kReadPhase) return ReadsOfThread(order_) * order_.thread_count;
  return order_.written_count * order_.thread_count * kRangePasses;
}

Status Contest::Run(KvStore* store, const OnSecondFn& on_second, BenchResult* result,
                    uint64_t* written_count) const {
  const bool writes = IsWriting(order_);
  if (!writes && order_.written_count == 0) return NothingToRead();
  const ContestShape shape = {.thread_count = order_.thread_count,
                              .seed = order_.seed,
                              .operations_each = ReadsOfThread(order_),
                              .readable_count = order_.written_count,
                              .limit_seconds = order_.phase_seconds};
  Progress progress(order_.phase, OperationCount(), RecordBytes(order_.value_bytes),
                    order_.thread_count);
  Timeline timeline(progress, on_second, &result->timeline);
  ContestPhases phases(shape, keys_, values_, KvCalls(store), &progress);
  // The threads take one record after the other, so those that are written at the end of the time
  // are the first ones.
  std::atomic<uint64_t> next{order_.phase == kWriteRestPhase ? order_.written_count : 0};
  const auto next_record = [&](uint32_t, uint64_t) {
    // Relaxed: only the number itself matters.
    const uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
    return index < order_.record_count ? std::optional(index) : std::nullopt;
  };
  timeline.Begin();
  TimedPoint point;
  const Status status = writes ? phases.Write(next_record, &point)
                        : order_.phase == kReadPhase
                            ? phases.Read(&point)
                            : phases.Range(
                                  expected_, /*checks_values=*/true, [](uint32_t) {}, &point);
  timeline.End(point.seconds);
  const auto kind = writes ? OperationKind::kWrite : OperationKind::kRead;
  result->latencies[static_cast<size_t>(kind)] = point.latency;
  result->operations = point.request_count;
  result->bytes = point.request_count * RecordBytes(order_.value_bytes);
  result->written_bytes = writes ? result->bytes : 0;
  result->finished = status.ok() && point.request_count == OperationCount();
  *written_count = writes ? std::min(next.load(), order_.record_count) : order_.written_count;
  return status;
}

Status Contest::ReadOne(KvStore* store) const {
  if (order_.written_count == 0) return NothingToRead();
  const uint64_t number = uint64_t{order_.round} << 32 | order_.opening;
  const uint64_t word = MixAt(order_.seed ^ kOpenStream, number);
  const uint64_t key = keys_.KeyAt(AsBelow(word, order_.written_count));
  std::vector<char> value(order_.value_bytes);
  const Status status = store->Get(key, value.data());
  if (!status.ok()) return Status(status.code(), KeyFailure(key, status.ToString()));
  const bool is_right = IsRecord(keys_, values_, key, value.data());
  return is_right ? Status::Ok() : Status::Corruption(KeyFailure(key, "wrong bytes"));
}

bool IsContestPhase(const std::string& phase) {
  return phase == kWritePhase || phase == kWriteRestPhase || phase == kReadPhase ||
         phase == kRangePhase;
}

}  // namespace engine_race::harness
