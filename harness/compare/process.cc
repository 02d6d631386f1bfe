#include "harness/compare/process.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "harness/bench/report.h"
#include "harness/bench/timeline.h"
#include "harness/data/mix.h"
#include "harness/load/contest_phases.h"
#include "harness/measure/table.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/process_stats.h"

namespace engine_race::harness {

namespace {

// A process that does not end by itself when its time is up is killed after so long.
constexpr double kPatienceSeconds = 60;

// Whether a phase visits records in order of key.
bool WalksInOrder(const std::string& phase) {
  constexpr std::string_view kInOrder[] = {kRangePhase, "readseq", "readreverse", "scanall"};
  return std::find(std::begin(kInOrder), std::end(kInOrder), phase) != std::end(kInOrder);
}

// One phase in this process, and what is known of it so far.
class PhaseRun {
 public:
  // What is not the store's own work is done here, before the clock starts.
  explicit PhaseRun(const CompareOrder& order)
      : order_(order), contest_(order), costs_({order.dir}) {
    result_.benchmark = order.phase;
    result_.thread_count = IsOpening(order.phase) ? 1 : order.thread_count;
    answer_.written_count = order.written_count;
    answer_.has_all_records = order.has_all_records;
  }

  CompareAnswer Run() {
    std::jthread watch([this](const std::stop_token& stop) { Watch(stop); });
    Status status = Prepare();
    if (status.ok()) status = Measure();
    const std::lock_guard lock(mutex_);
    if (!status.ok()) answer_.error = status.ToString();
    over_ = true;
    return answer_;
  }

 private:
  // The page cache is made cold, but for this program, whose own pages are all in memory.
  Status Prepare() {
    if (!order_.cgroup.empty()) ENGINE_RACE_RETURN_IF_ERROR(MemoryCgroup::Join(order_.cgroup));
    program_locked_ = ::mlockall(MCL_CURRENT) == 0;
    page_cache_drop_ = DropPageCache(order_.dir);
    if (program_locked_) ::munlockall();
    return Status::Ok();
  }

  Status Measure() {
    for (const KvStoreKind& kind : ComparedStores()) {
      if (kind.name == order_.store) return MeasureStore(kind);
    }
    return Status::NotSupported("there is no store " + order_.store);
  }

  Status MeasureStore(const KvStoreKind& kind) {
    KvOptions options;
    options.dir = order_.dir;
    options.memory_budget_bytes = order_.memory_budget_bytes;
    options.thread_count = order_.thread_count;
    options.walks_in_order = WalksInOrder(order_.phase);
    options.record_count = order_.record_count;
    options.value_bytes = order_.value_bytes;
    costs_.Start();
    const Moment start = Now();
    start_ns_ = start.ns;
    std::unique_ptr<KvStore> store;
    ENGINE_RACE_RETURN_IF_ERROR(kind.open(options, &store));
    const Moment opened = Now();
    const Status done = RunPhase(store.get());
    // The time of an opening ends with the first answer.
    const Moment answered = Now();
    answer_.description = store->Describe();
    const Moment closing = Now();
    const Status closed = store->Close();
    store.reset();
    if (!SyncFileSystem(order_.dir)) return Status::IOError("syncfs " + order_.dir);
    const Moment end = Now();
    CountTime(start, IsOpening(order_.phase) ? answered : end, closing, end);
    NoteRun(Seconds(start, opened), Seconds(closing, end));
    return done.ok() ? closed : done;
  }

  struct Moment {
    uint64_t ns = 0;
    CpuTimes cpu;
  };
  static Moment Now() { return {NowNs(), ProcessCpuTimes()}; }
  static double Seconds(const Moment& from, const Moment& to) {
    return static_cast<double>(to.ns - from.ns) * 1e-9;
  }

  void CountTime(const Moment& start, const Moment& stop, const Moment& closing,
                 const Moment& end) {
    const BenchTraits* const benchmark = FindBenchmark(order_.phase);
    if (benchmark == nullptr) {
      result_.seconds = 0;
      result_.cpu = {};
      AddTime(start, stop);
    } else if (benchmark->writes) {
      // It has measured its own calls. What they wrote reaches the device when the store is closed.
      AddTime(closing, end);
    }
  }
  void AddTime(const Moment& from, const Moment& to) {
    result_.seconds += Seconds(from, to);
    const CpuTimes cpu = to.cpu - from.cpu;
    result_.cpu.user_seconds += cpu.user_seconds;
    result_.cpu.system_seconds += cpu.system_seconds;
  }

  void NoteRun(double open_seconds, double close_seconds) {
    RunCosts costs = costs_.Stop(result_.written_bytes);
    const bool fills = NoteRecords();
    if (order_.phase == kWritePhase && answer_.written_count > 0) {
      costs.space_amplification =
          static_cast<double>(AllocatedBytes(order_.dir)) /
          static_cast<double>(answer_.written_count * RecordBytes(order_.value_bytes));
    }
    answer_.run = RunJson(order_.store, order_.round, result_, costs);
    answer_.run["open_s"] = open_seconds;
    answer_.run["close_s"] = close_seconds;
    answer_.run["position"] = order_.position;
    if (IsOpening(order_.phase)) answer_.run["opening"] = order_.opening;
    answer_.run["page_cache_drop"] = page_cache_drop_;
    answer_.run["program_locked"] = program_locked_;
    answer_.run["memory_cap_bytes"] = order_.memory_cap_bytes;
    answer_.run["cgroup_version"] = order_.cgroup_version;
    answer_.run["records"] = answer_.written_count;
    if (!fills) answer_.run["has_all_records"] = answer_.has_all_records;
  }

  // Notes how many records the store has now. Returns whether the phase filled the store.
  bool NoteRecords() {
    const BenchTraits* const benchmark = FindBenchmark(order_.phase);
    if (benchmark == nullptr) {
      answer_.has_all_records = answer_.written_count == order_.record_count;
      return order_.phase == kWritePhase || order_.phase == kWriteRestPhase;
    }
    if (benchmark->is_fill) {
      answer_.written_count = result_.written_bytes / RecordBytes(order_.value_bytes);
      answer_.has_all_records = result_.finished;
    } else if (result_.ycsb_record_count > 0) {
      answer_.written_count = result_.ycsb_record_count;
    }
    return benchmark->is_fill;
  }

  Status RunPhase(KvStore* store) {
    const auto on_second = [this](double, uint64_t operations) { operations_so_far_ = operations; };
    if (IsContestPhase(order_.phase)) {
      return contest_.Run(store, on_second, &result_, &answer_.written_count);
    }
    if (IsOpening(order_.phase)) {
      ENGINE_RACE_RETURN_IF_ERROR(contest_.ReadOne(store));
      result_.operations = 1;
      result_.bytes = RecordBytes(order_.value_bytes);
      result_.finished = true;
      return Status::Ok();
    }
    BenchConfig config;
    config.benchmark = order_.phase;
    config.num = order_.record_count;
    config.reads = std::max<uint64_t>(order_.record_count / order_.thread_count, 1);
    config.thread_count = order_.thread_count;
    config.value_bytes = order_.value_bytes;
    config.time_limit_seconds = order_.phase_seconds;
    config.seed = order_.seed;
    config.key_layout = order_.dense_keys ? KeyLayout::kDense : KeyLayout::kSpread;
    config.on_second = on_second;
    return RunBenchmark(config, store, &result_);
  }

  // Ends the process when a call of the store does not return. Its run, which is a failed one, has
  // the operations so far.
  void Watch(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, std::chrono::duration<double>(order_.process_seconds),
                  [] { return false; });
    if (stop.stop_requested()) return;
    const std::lock_guard answer_lock(mutex_);
    if (over_) return;
    BenchResult result;
    result.benchmark = order_.phase;
    result.thread_count = order_.thread_count;
    result.operations = operations_so_far_;
    result.bytes = result.operations * RecordBytes(order_.value_bytes);
    result.seconds = SecondsSince(start_ns_);
    CompareAnswer answer;
    answer.error = "the store is not closed after " + Fixed(order_.process_seconds, 1) + " s";
    answer.run = RunJson(order_.store, order_.round, result, costs_.Stop(0));
    PrintAnswer(answer);
    std::_Exit(0);
  }

  const CompareOrder& order_;
  const Contest contest_;
  std::string page_cache_drop_;
  // The program's pages were kept in memory while the page cache was dropped.
  bool program_locked_ = false;
  CostMeter costs_;
  BenchResult result_;
  CompareAnswer answer_;
  std::atomic<uint64_t> start_ns_{NowNs()};
  std::atomic<uint64_t> operations_so_far_{0};
  std::mutex mutex_;
  bool over_ = false;
};

}  // namespace

std::vector<KvStoreKind> ComparedStores() {
  std::vector<KvStoreKind> stores = Peers();
  stores.insert(stores.begin(), EngineStoreKind());
  return stores;
}

CompareAnswer RunCompareProcess(const CompareOrder& order) {
  nlohmann::json json;
  const Status status =
      RunOwnChild(kCompareWork, order, &json, order.process_seconds + kPatienceSeconds);
  CompareAnswer answer;
  if (json.contains("run")) json.get_to(answer);
  if (!status.ok() && answer.error.empty()) answer.error = status.message();
  return answer;
}

Status RunCompareWork(const nlohmann::json& order, nlohmann::json* answer) {
  const auto parsed = order.get<CompareOrder>();
  // Stores hold all of their files open. The default limit of 1024 is far below what they need.
  RaiseFileLimit();
  *answer = PhaseRun(parsed).Run();
  return Status::Ok();
}

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
