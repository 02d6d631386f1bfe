#include "harness/compare/process.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

#include "harness/bench/report.h"
#include "harness/compare/contest.h"
#include "harness/measure/table.h"
#include "harness/opponents/peers.h"
#include "harness/system/disk.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/own_child.h"
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

}  // namespace engine_race::harness
