#include "harness/crash/trial.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"

namespace engine_race::crash {
namespace {

constexpr uint32_t kMaxShortRange = 256;
constexpr uint32_t kVerifyThreadCount = 16;
// Of each turn of the syncing thread: so that trials die in the middle of moving records.
constexpr double kCompactChance = 0.2;

Status OpenStore(const ChildPlan& plan, const Trial& trial, std::unique_ptr<Store>* store) {
  Options options = plan.options;
  options.log = [&report = trial.report](LogLevel, std::string_view message) {
    report.AddLog(message);
  };
  return Store::Open(options, plan.dir, store);
}

void AddStatus(const Trial& trial, const std::string& call, const Status& status) {
  trial.report.AddViolation(call + ": " + status.ToString());
}

void RunThreads(uint32_t count, const std::function<void(uint32_t)>& run) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < count; ++t) threads.emplace_back(run, t);
  for (std::thread& thread : threads) thread.join();
}

// The writers, the readers and the syncing thread of one child, from Start to Stop.
class Traffic {
 public:
  Traffic(Store* store, const ChildPlan& plan, const Trial& trial)
      : store_(store), plan_(plan), trial_(trial), checker_(store, trial, /*settled=*/false) {}

  void Start() {
    for (uint32_t t = 0; t < plan_.writer_count; ++t) {
      threads_.emplace_back([this, t] { Write(t); });
    }
    if (plan_.sync_pace_us > 0) threads_.emplace_back([this] { Sync(); });
  }

  void StartReaders() {
    for (uint32_t t = 0; t < plan_.reader_count; ++t) {
      threads_.emplace_back([this, t] { Read(t); });
    }
  }

  void Stop() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Waits until the first reader has its first answer.
  void AwaitFirstRead() const {
    while (!first_read_done_.load() && plan_.reader_count > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  void Write(uint32_t thread) {
    Rng rng(plan_.seed + thread);
    Oracle& oracle = trial_.oracle;
    std::string key(kKeyBytes, '\0');
    std::string value(trial_.shape.geometry.value_bytes, '\0');
    const uint64_t share = plan_.max_record_count / plan_.writer_count;
    uint64_t written_count = 0;
    while (!stop_.load()) {
      if (written_count >= share) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      const Ticket ticket = oracle.Begin(thread, PickKey(trial_.shape, rng));
      EncodeKey(oracle.key(ticket.key_index), key.data());
      const bool is_delete = oracle.IsDelete(ticket.key_index, ticket.version);
      if (!is_delete) MakeValue(oracle, ticket.key_index, ticket.version, &value);
      const Status status = is_delete ? store_->Delete(key) : store_->Write(key, value);
      if (!status.ok()) {
        AddStatus(trial_, is_delete ? "Delete" : "Write", status);
        return;
      }
      oracle.End(thread, ticket);
      ++written_count;
      if (plan_.pace_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(plan_.pace_us));
    }
  }
  void Sync() {
    Rng rng(plan_.seed + 2000);
    while (!stop_.load()) {
      if (const Status status = store_->Sync(); !status.ok()) {
        AddStatus(trial_, "Sync", status);
        return;
      }
      if (Chance(rng, kCompactChance)) {
        if (const Status status = store_->Compact(); !status.ok()) {
          AddStatus(trial_, "Compact", status);
          return;
        }
      }
      std::this_thread::sleep_for(
          std::chrono::microseconds(Uniform(rng, 0, 2 * uint64_t{plan_.sync_pace_us})));
    }
  }
  void Read(uint32_t reader) {
    Rng rng(plan_.seed + 1000 + reader);
    const uint32_t key_count = trial_.oracle.key_count();
    std::string buffer;
    while (!stop_.load()) {
      if (Chance(rng, 0.05)) {
        const auto first = static_cast<uint32_t>(Uniform(rng, 0, key_count - 1));
        const auto length = static_cast<uint32_t>(Uniform(rng, 0, kMaxShortRange));
        checker_.CheckRange(first, std::min(key_count, first + length), /*open_bounds=*/false);
      } else {
        checker_.CheckRead(PickKey(trial_.shape, rng), &buffer);
      }
      first_read_done_.store(true);
    }
  }

  Store* store_;
  const ChildPlan& plan_;
  const Trial& trial_;
  Checker checker_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> first_read_done_ = false;
  std::vector<std::thread> threads_;
};

void VerifyRanges(const Checker& checker, const Oracle& oracle, Rng& rng) {
  RunThreads(static_cast<uint32_t>(Uniform(rng, 1, 3)),
             [&](uint32_t) { checker.CheckRange(0, oracle.key_count(), /*open_bounds=*/true); });
  for (int i = 0; i < 8; ++i) {
    const auto first = static_cast<uint32_t>(Uniform(rng, 0, oracle.key_count() - 1));
    const auto length = static_cast<uint32_t>(Uniform(rng, 0, kMaxShortRange));
    checker.CheckRange(first, std::min(oracle.key_count(), first + length),
                       /*open_bounds=*/false);
  }
}

void VerifyReads(const Checker& checker, const Oracle& oracle) {
  std::atomic<uint32_t> next = 0;
  RunThreads(kVerifyThreadCount, [&](uint32_t) {
    std::string buffer;
    for (uint32_t i = next.fetch_add(1); i < oracle.key_count(); i = next.fetch_add(1)) {
      checker.CheckRead(i, &buffer);
    }
  });
}

// Opens the store, works on it and closes it. Returns the exit code.
int RunOpen(const ChildPlan& plan, const Trial& trial, const char* call,
            const std::function<void(Store*)>& work) {
  trial.report.SetPhase(Phase::kOpen);
  std::unique_ptr<Store> store;
  if (const Status status = OpenStore(plan, trial, &store); !status.ok()) {
    AddStatus(trial, call, status);
    return 1;
  }
  work(store.get());
  trial.report.SetPhase(Phase::kClose);
  store.reset();
  trial.report.SetPhase(Phase::kDone);
  return trial.report.violation_count() == 0 ? 0 : 1;
}

}  // namespace

int RunWriter(const ChildPlan& plan, const Trial& trial) {
  return RunOpen(plan, trial, "Open to write", [&](Store* store) {
    const Checker checker(store, trial, /*settled=*/false);
    std::string buffer;
    if (plan.index_first) checker.CheckRead(0, &buffer);
    trial.report.SetPhase(Phase::kWrite);
    Traffic traffic(store, plan, trial);
    traffic.Start();
    if (plan.index_first) traffic.StartReaders();
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.write_ms));
    if (!plan.index_first) {
      trial.report.SetPhase(Phase::kFirstRead);
      traffic.StartReaders();
      traffic.AwaitFirstRead();
      std::this_thread::sleep_for(std::chrono::milliseconds(plan.write_ms));
    }
    traffic.Stop();
  });
}

int RunVerifier(const ChildPlan& plan, const Trial& trial) {
  return RunOpen(plan, trial, "Open to verify", [&](Store* store) {
    Rng rng(plan.seed);
    const Checker checker(store, trial, /*settled=*/true);
    const bool reads_first = Chance(rng, 0.5);
    trial.report.SetPhase(Phase::kFirstRead);
    std::string buffer;
    if (reads_first) checker.CheckRead(0, &buffer);
    if (!reads_first) VerifyRanges(checker, trial.oracle, rng);
    trial.report.SetPhase(Phase::kVerify);
    VerifyReads(checker, trial.oracle);
    if (reads_first) VerifyRanges(checker, trial.oracle, rng);
  });
}

int RunSecondOpener(const ChildPlan& plan, const Trial& trial) {
  std::unique_ptr<Store> store;
  const Status status = OpenStore(plan, trial, &store);
  if (status.code() == Code::kIOError && store == nullptr) return 0;
  AddStatus(trial, "Open while another process holds the store", status);
  return 1;
}

}  // namespace engine_race::crash
