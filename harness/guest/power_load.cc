#include "harness/guest/power_plan.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"

namespace engine_race::powercut {
namespace {

class Load {
 public:
  Load(const Plan& plan, const LoadPlan& load, Store* store, Ledger* ledger)
      : plan_(plan), load_(load), store_(store), ledger_(ledger) {}

  std::string Run() {
    std::vector<std::thread> threads;
    for (uint32_t writer = 0; writer < kWriterCount; ++writer) {
      threads.emplace_back([this, writer] { Write(writer); });
    }
    if (load_.sync_every_ms > 0) threads.emplace_back([this] { SyncNowAndThen(); });
    for (std::thread& thread : threads) thread.join();
    return failure_;
  }

 private:
  void Write(uint32_t writer) {
    const bool durable = load_.sync_mode != SyncMode::kNone;
    for (uint32_t number = 1; number <= load_.operation_count && !failed_.load(); ++number) {
      if (!WriteOne(writer, number)) break;
      done_[writer].store(number);
      if (durable) {
        Acked acked = {};
        acked[writer] = number;
        if (!Acknowledge(writer, number, acked)) return;
      }
      if (load_.pace_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(load_.pace_us));
    }
    while (!failed_.load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  bool WriteOne(uint32_t writer, uint32_t number) {
    const Operation operation = plan_.OperationAt(writer, load_.cycle, number);
    const uint64_t word = plan_.KeyAt(operation.bucket, operation.key_index);
    const KeyBytes key(word);
    Status status;
    if (operation.is_delete) {
      status = store_->Delete(key.view());
    } else {
      std::string value(kValueBytes, '\0');
      plan_.FillValue(word, Plan::Version(load_.cycle, number), value.data());
      status = store_->Write(key.view(), value);
    }
    if (status.ok()) return true;
    // A full store is not a failure: it has enough data for the cut.
    if (status.code() != Code::kFull) Fail(operation.is_delete ? "Delete" : "Write", status);
    return false;
  }
  void SyncNowAndThen() {
    for (uint64_t sequence = 1; !failed_.load(); ++sequence) {
      std::this_thread::sleep_for(std::chrono::milliseconds(load_.sync_every_ms));
      Acked acked;
      for (uint32_t writer = 0; writer < kWriterCount; ++writer)
        acked[writer] = done_[writer].load();
      if (const Status status = store_->Sync(); !status.ok()) return Fail("Sync", status);
      if (!Acknowledge(kWriterCount, sequence, acked)) return;
    }
  }

  void Fail(const std::string& call, const Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.empty()) failure_ = call + ": " + status.ToString();
    failed_.store(true);
  }
  bool Acknowledge(uint32_t acker, uint64_t sequence, const Acked& acked) {
    const Status status = ledger_->WriteAcked(plan_, load_.cycle, acker, sequence, acked);
    if (!status.ok()) Fail("ledger", status);
    return status.ok();
  }

  const Plan& plan_;
  const LoadPlan& load_;
  Store* const store_;
  Ledger* const ledger_;
  std::array<std::atomic<uint32_t>, kWriterCount> done_ = {};
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::string failure_;  // under mutex_
};

}  // namespace

std::string RunLoad(const Plan& plan, const LoadPlan& load, Store* store, Ledger* ledger) {
  return Load(plan, load, store, ledger).Run();
}

}  // namespace engine_race::powercut
