#include "harness/compare/contest.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "engine_race/base/key.h"
#include "harness/data/mix.h"
#include "harness/data/range_visitor.h"
#include "harness/measure/progress.h"
#include "harness/measure/timed.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr uint64_t kOpenStream = 0x6f70656e;
constexpr uint32_t kPasses = 2;
// The visits of a range between two looks at the clock.
constexpr uint64_t kVisitsPerLook = 64;

// Notes the operations of each second. The caller's threads may go on when it is destroyed.
class Seconds {
 public:
  Seconds(const Progress& progress, const OnSecondFn& on_second, std::vector<BenchSecond>* seconds)
      : progress_(progress), on_second_(on_second), seconds_(seconds), begin_ns_(NowNs()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  }
  Seconds(const Seconds&) = delete;
  Seconds& operator=(const Seconds&) = delete;
  ~Seconds() {
    thread_.request_stop();
    thread_.join();
    Note();
  }

 private:
  void Watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; }) &&
           !stop.stop_requested()) {
      Note();
    }
  }
  void Note() {
    const double at = SecondsSince(begin_ns_);
    const uint64_t done = progress_.Done();
    if (done > noted_) seconds_->push_back({at, done - noted_});
    noted_ = done;
    if (on_second_) on_second_(at, done);
  }

  const Progress& progress_;
  const OnSecondFn& on_second_;
  std::vector<BenchSecond>* const seconds_;
  const uint64_t begin_ns_;
  uint64_t noted_ = 0;
  std::jthread thread_;
};

// Leaves a scan when the time is up.
struct TimeIsUp {};

Status WrongRecord(uint64_t key, const std::string& what) {
  return Status::Corruption(KeyFailure(key, what));
}

Status NothingToRead() { return Status::InvalidArgument("the store has no records to read"); }

bool IsWriting(const CompareOrder& order) {
  return order.phase == kWritePhase || order.phase == kWriteRestPhase;
}

}  // namespace

class Contest::Phase {
 public:
  explicit Phase(const CompareOrder& order)
      : order_(order),
        records_(order),
        progress_(order.phase, OperationCount(), kBenchRecordBytes, order.thread_count),
        passes_(static_cast<ptrdiff_t>(order.thread_count)),
        next_(order.phase == kWriteRestPhase ? order.written_count : 0) {
    if (order.phase == kRangePhase) {
      expected_ = KeySource(KeyShape::kUniform, order.written_count, order.seed).Summarize();
    }
  }

  Status Run(KvStore* store, const OnSecondFn& on_second, BenchResult* result,
             uint64_t* written_count) {
    if (!IsWriting(order_) && order_.written_count == 0) return NothingToRead();
    store_ = store;
    TimedPoint point;
    Status status;
    {
      const Seconds seconds(progress_, on_second, &result->timeline);
      status = RunTimed(
          order_.thread_count, order_.phase_seconds,
          [this](uint32_t thread, TimedThread* self) { return Work(thread, self); }, &point);
    }
    const bool writes = IsWriting(order_);
    const auto kind = writes ? OperationKind::kWrite : OperationKind::kRead;
    result->latencies[static_cast<size_t>(kind)] = point.latency;
    result->operations = point.request_count;
    result->bytes = point.request_count * kBenchRecordBytes;
    result->written_bytes = writes ? result->bytes : 0;
    result->finished = status.ok() && !cut_short_.load();
    *written_count = writes ? std::min(next_.load(), order_.record_count) : order_.written_count;
    return status;
  }

 private:
  uint64_t ReadsOfThread() const {
    return std::max<uint64_t>(order_.record_count / order_.thread_count, 1);
  }
  uint64_t OperationCount() const {
    if (order_.phase == kWritePhase) return order_.record_count;
    if (order_.phase == kWriteRestPhase) return order_.record_count - order_.written_count;
    if (order_.phase == kReadPhase) return ReadsOfThread() * order_.thread_count;
    return order_.written_count * order_.thread_count * kPasses;
  }

  Status Work(uint32_t thread, TimedThread* self) {
    self->Start();
    if (IsWriting(order_)) return Write(thread, self);
    if (order_.phase == kReadPhase) return Read(thread, self);
    return Range(thread, self);
  }

  // The threads take one record after the other, so those that are written at the end of the time
  // are the first ones.
  Status Write(uint32_t thread, TimedThread* self) {
    alignas(64) char value[kValueSize];
    do {
      // Relaxed: only the number itself matters.
      const uint64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= order_.record_count) return Status::Ok();
      const uint64_t key = records_.KeyAt(index);
      records_.values().Fill(key, index, value);
      const uint64_t begin_ns = NowNs();
      ENGINE_RACE_RETURN_IF_ERROR(store_->Put(key, value));
      Count(thread, NowNs() - begin_ns, self);
    } while (self->Running());
    // The last record may have been this thread's.
    if (next_.load() < order_.record_count) cut_short_ = true;
    return Status::Ok();
  }

  Status Read(uint32_t thread, TimedThread* self) {
    alignas(64) char value[kValueSize];
    const uint64_t count = ReadsOfThread();
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0 && !self->Running()) {
        cut_short_ = true;
        return Status::Ok();
      }
      const uint64_t word = MixAt(order_.seed ^ kReadStream, i * order_.thread_count + thread);
      const uint64_t begin_ns = NowNs();
      ENGINE_RACE_RETURN_IF_ERROR(
          records_.Read(store_, AsBelow(word, order_.written_count), value));
      Count(thread, NowNs() - begin_ns, self);
    }
    return Status::Ok();
  }

  Status Range(uint32_t thread, TimedThread* self) {
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      Status status;
      try {
        status = Pass(thread, pass, self);
      } catch (const TimeIsUp&) {
        cut_short_ = true;
        // Others may still come to the barrier.
        passes_.arrive_and_drop();
        return Status::Ok();
      } catch (const std::exception& error) {
        status = Status::Corruption(error.what());
      }
      if (!status.ok()) {
        passes_.arrive_and_drop();
        return status;
      }
      const bool is_last = pass + 1 == kPasses;
      if (!is_last && self->Running()) {
        passes_.arrive_and_wait();
        continue;
      }
      // A thread that could not be started never comes to the barrier.
      passes_.arrive_and_drop();
      if (!is_last) cut_short_ = true;
      return Status::Ok();
    }
    return Status::Ok();
  }

  Status Pass(uint32_t thread, uint32_t pass, TimedThread* self) {
    RangeVisitor visitor(records_.keys(), records_.values(),
                         ChecksOf(thread, pass, order_.thread_count));
    const Status status = store_->ScanAll([&](uint64_t key, const char* value) {
      visitor.Visit(engine_race::KeyBytes(key).view(), {value, kValueSize});
      ++self->tally.request_count;
      if (visitor.count() % kVisitsPerLook != 0) return;
      progress_.Add(thread, kVisitsPerLook);
      if (!self->Running()) throw TimeIsUp();
    });
    ENGINE_RACE_RETURN_IF_ERROR(status);
    progress_.Add(thread, visitor.count() % kVisitsPerLook);
    const bool is_whole =
        visitor.count() == expected_.distinct_count && visitor.key_sum() == expected_.key_sum;
    if (is_whole) return Status::Ok();
    return Status::Corruption("the range visited " + std::to_string(visitor.count()) + " of " +
                              std::to_string(expected_.distinct_count) +
                              " records, or others than these");
  }

  void Count(uint32_t thread, uint64_t latency_ns, TimedThread* self) {
    self->tally.latency.Add(latency_ns);
    ++self->tally.request_count;
    progress_.Add(thread, 1);
  }

  const CompareOrder& order_;
  const RecordReader records_;
  KvStore* store_ = nullptr;
  KeySummary expected_;
  Progress progress_;
  std::barrier<> passes_;
  std::atomic<uint64_t> next_;  // record to write
  std::atomic<bool> cut_short_{false};
};

Contest::Contest(const CompareOrder& order) : phase_(std::make_unique<Phase>(order)) {}

Contest::~Contest() = default;

Status Contest::Run(KvStore* store, const OnSecondFn& on_second, BenchResult* result,
                    uint64_t* written_count) {
  return phase_->Run(store, on_second, result, written_count);
}

bool IsContestPhase(const std::string& phase) {
  return phase == kWritePhase || phase == kWriteRestPhase || phase == kReadPhase ||
         phase == kRangePhase;
}

RecordReader::RecordReader(const CompareOrder& order)
    : order_(order),
      keys_(KeyShape::kUniform, order.record_count, order.seed),
      values_(order.seed) {}

Status RecordReader::Read(KvStore* store, uint64_t index, char* value) const {
  const uint64_t key = KeyAt(index);
  const Status status = store->Get(key, value);
  if (!status.ok()) return Status(status.code(), KeyFailure(key, status.ToString()));
  uint64_t version = 0;
  const bool is_right = values_.CheckAll(key, value, &version) && version == index;
  return is_right ? Status::Ok() : WrongRecord(key, "wrong bytes");
}

Status RecordReader::ReadOne(KvStore* store) const {
  if (order_.written_count == 0) return NothingToRead();
  alignas(64) char value[kValueSize];
  const uint64_t number = uint64_t{order_.round} << 32 | order_.opening;
  const uint64_t word = MixAt(order_.seed ^ kOpenStream, number);
  return Read(store, AsBelow(word, order_.written_count), value);
}

}  // namespace harness
