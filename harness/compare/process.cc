#include "harness/compare/process.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "harness/bench/report.h"
#include "harness/compare/contest.h"
#include "harness/kv/engine_store.h"
#include "harness/measure/table.h"
#include "harness/opponents/peers.h"
#include "harness/system/child_process.h"
#include "harness/system/disk.h"
#include "harness/system/memory_cgroup.h"
#include "harness/system/page_cache.h"
#include "harness/system/process_stats.h"

namespace harness {
namespace {

using engine_race::Status;

constexpr std::string_view kPhaseFlag = "--run-compared-phase";
// The exit code of a process that cannot parse its order.
constexpr int kBadOrder = 2;

// One phase in this process, and what is known of it so far.
class PhaseRun {
 public:
  explicit PhaseRun(const CompareOrder& order) : order_(order), costs_({order.dir}) {
    result_.benchmark = order.phase;
    result_.thread_count = order.phase == kOpenPhase ? 1 : order.thread_count;
    answer_.written_count = order.written_count;
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
  // A cold page cache, but for this program, whose own pages are all in memory.
  Status Prepare() {
    if (!order_.cgroup.empty()) ENGINE_RACE_RETURN_IF_ERROR(MemoryCgroup::Join(order_.cgroup));
    const bool locked = ::mlockall(MCL_CURRENT) == 0;
    DropPageCache(order_.dir);
    if (locked) ::munlockall();
    return Status::Ok();
  }

  Status Measure() {
    for (const KvStoreKind& kind : ComparedStores()) {
      if (kind.name == order_.store) return MeasureStore(kind);
    }
    return Status::NotSupported("there is no store " + order_.store);
  }

  Status MeasureStore(const KvStoreKind& kind) {
    const CpuTimes cpu_before = ProcessCpuTimes();
    costs_.Start();
    start_ns_ = NowNs();
    std::unique_ptr<KvStore> store;
    ENGINE_RACE_RETURN_IF_ERROR(
        kind.open({order_.dir, order_.memory_budget_bytes, order_.thread_count}, &store));
    const double open_seconds = SecondsSince(start_ns_);
    const Status done = RunPhase(store.get());
    // The time of an opening ends with the first answer.
    const double seconds_to_answer = SecondsSince(start_ns_);
    answer_.description = store->Describe();
    const uint64_t closing_ns = NowNs();
    const Status closed = store->Close();
    store.reset();
    if (!SyncFileSystem(order_.dir)) return Status::IOError("syncfs " + order_.dir);
    const double close_seconds = SecondsSince(closing_ns);
    const double whole_seconds = SecondsSince(start_ns_);
    const CpuTimes cpu_after = ProcessCpuTimes();
    RunCosts costs = costs_.Stop(result_.written_bytes);
    if (order_.phase == kWritePhase && answer_.written_count > 0) {
      costs.space_amplification = static_cast<double>(AllocatedBytes(order_.dir)) /
                                  static_cast<double>(answer_.written_count * kBenchRecordBytes);
    }
    // Benchmarks have measured their own time.
    if (FindBenchmark(order_.phase) == nullptr) {
      result_.seconds = order_.phase == kOpenPhase ? seconds_to_answer : whole_seconds;
      result_.cpu_user_seconds = cpu_after.user_seconds - cpu_before.user_seconds;
      result_.cpu_system_seconds = cpu_after.system_seconds - cpu_before.system_seconds;
    }
    answer_.run = RunJson(order_.store, order_.round, result_, costs);
    answer_.run["open_s"] = open_seconds;
    answer_.run["close_s"] = close_seconds;
    // Benchmarks do not say how many records a store has.
    if (FindBenchmark(order_.phase) == nullptr) {
      answer_.run["records"] = answer_.written_count;
      answer_.run["has_all_records"] = answer_.written_count == order_.record_count;
    }
    return done.ok() ? closed : done;
  }

  Status RunPhase(KvStore* store) {
    const auto on_second = [this](double, uint64_t operations) { operations_so_far_ = operations; };
    if (IsContestPhase(order_.phase)) {
      return RunContest(order_, store, on_second, &result_, &answer_.written_count);
    }
    if (order_.phase == kOpenPhase) {
      ENGINE_RACE_RETURN_IF_ERROR(ReadOneRecord(order_, store));
      result_.operations = 1;
      result_.bytes = kBenchRecordBytes;
      result_.finished = true;
      return Status::Ok();
    }
    BenchConfig config;
    config.benchmark = order_.phase;
    config.num = order_.record_count;
    config.reads = std::max<uint64_t>(order_.record_count / order_.thread_count, 1);
    config.thread_count = order_.thread_count;
    config.time_limit_seconds = order_.phase_seconds;
    config.seed = order_.seed;
    config.key_layout = order_.dense_keys ? KeyLayout::kDense : KeyLayout::kSpread;
    config.on_second = on_second;
    return RunBenchmark(config, store, &result_);
  }

  // Ends the process when a call of the store does not return: then the operations so far count.
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
    result.bytes = result.operations * kBenchRecordBytes;
    result.seconds = SecondsSince(start_ns_);
    CompareAnswer answer;
    answer.stuck = true;
    answer.error = "the store is not closed after " + Fixed(order_.process_seconds, 1) + " s";
    answer.run = RunJson(order_.store, order_.round, result, costs_.Stop(0));
    std::puts(nlohmann::json(answer).dump().c_str());
    std::fflush(stdout);
    std::_Exit(0);
  }

  const CompareOrder& order_;
  CostMeter costs_;
  BenchResult result_;
  CompareAnswer answer_;
  std::atomic<uint64_t> start_ns_{NowNs()};
  std::atomic<uint64_t> operations_so_far_{0};
  std::mutex mutex_;
  bool over_ = false;
};

CompareAnswer Broken(const std::string& what) {
  CompareAnswer answer;
  answer.error = what;
  answer.stuck = true;
  return answer;
}

}  // namespace

std::vector<KvStoreKind> ComparedStores() {
  std::vector<KvStoreKind> stores = Peers();
  stores.insert(stores.begin(), EngineStoreKind());
  return stores;
}

CompareAnswer RunCompareProcess(const CompareOrder& order) {
  const ChildResult child =
      RunChild({SelfPath(), std::string(kPhaseFlag), nlohmann::json(order).dump()});
  if (!child.started) return Broken(child.error);
  // Libraries may have printed lines before the answer.
  const size_t end = child.output.find_last_not_of('\n');
  const size_t begin = end == std::string::npos ? 0 : child.output.rfind('\n', end) + 1;
  if (const auto answer = ParseCompareAnswer(child.output.substr(begin))) return *answer;
  return Broken("its process ended without a result, code " + std::to_string(child.exit_code));
}

std::optional<int> ComparePhaseMain(int argc, char** argv) {
  if (argc != 3 || argv[1] != kPhaseFlag) return std::nullopt;
  const std::optional<CompareOrder> order = ParseCompareOrder(argv[2]);
  if (!order) return kBadOrder;
  PhaseRun run(*order);
  const CompareAnswer answer = run.Run();
  std::puts(nlohmann::json(answer).dump().c_str());
  return answer.error.empty() ? 0 : 1;
}

}  // namespace harness
