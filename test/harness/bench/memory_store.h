// A store in memory, and a fixture that runs benchmarks over it.
//
// As thread-safe as KvStore says. Cursors look their record up with each step.
#ifndef TEST_HARNESS_BENCH_MEMORY_STORE_H_
#define TEST_HARNESS_BENCH_MEMORY_STORE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>

#include "engine_race/base/options.h"
#include "harness/bench/benchmark.h"
#include "harness/kv/kv_store.h"

namespace engine_race::harness {

class MemoryStore final : public KvStore {
 public:
  using Records = std::map<uint64_t, std::string>;

  explicit MemoryStore(uint32_t value_bytes = kValueBytes) : KvStore(value_bytes) {}

  Status Put(uint64_t key, const char* value) override {
    ++put_count;
    std::this_thread::sleep_for(delay);
    const std::lock_guard lock(mutex_);
    if (most_records > 0 && records_.size() >= most_records) {
      return Status::Full("no room");
    }
    records_[key].assign(value, value_bytes());
    return {};
  }
  Status Delete(uint64_t key) override {
    const std::lock_guard lock(mutex_);
    records_.erase(key);
    return {};
  }
  Status Get(uint64_t key, char* value) override {
    if (before_get) before_get(get_count++);
    const std::lock_guard lock(mutex_);
    last_key = key;
    const auto at = records_.find(key);
    if (at == records_.end()) return Status::NotFound();
    std::memcpy(value, at->second.data(), at->second.size());
    return {};
  }
  Status MultiGet(std::span<const uint64_t> keys, char* values, std::span<Code> codes) override {
    batch_sizes[keys.size()]++;
    return KvStore::MultiGet(keys, values, codes);
  }
  Status ScanAll(VisitFn visit) override {
    for (const auto& [key, value] : Snapshot()) {
      std::this_thread::sleep_for(delay);
      visit(key, value.data());
    }
    return {};
  }
  Status NewCursor(std::unique_ptr<KvCursor>* cursor) override;
  Status Sync() override { return {}; }
  Status Close() override { return {}; }
  nlohmann::json Describe() const override { return nlohmann::json::object(); }

  Records Snapshot() const {
    const std::lock_guard lock(mutex_);
    return records_;
  }

  Records& records() { return records_; }

  // Of each Put, and of each record that a scan visits.
  std::chrono::microseconds delay{0};
  size_t most_records = 0;  // 0: no limit
  uint64_t last_key = 0;    // that was read
  // Values of cursors cannot be read.
  bool hides_values = false;
  // Called with the number of gets before this one.
  std::function<void(uint64_t)> before_get;
  std::atomic<uint64_t> get_count = 0;
  std::atomic<uint64_t> put_count = 0;
  // How many batches had each number of keys; for one thread.
  std::map<size_t, uint64_t> batch_sizes;

 private:
  friend class MemoryCursor;

  mutable std::mutex mutex_;
  Records records_;
};

class MemoryCursor final : public KvCursor {
 public:
  explicit MemoryCursor(const MemoryStore& store)
      : records_(store.Snapshot()), hides_values_(store.hides_values) {}

  void SeekToFirst() override { at_ = records_.begin(); }
  void SeekToLast() override {
    at_ = records_.empty() ? records_.end() : std::prev(records_.end());
  }
  void Seek(uint64_t key) override { at_ = records_.lower_bound(key); }
  void Next() override { ++at_; }
  void Prev() override { at_ = at_ == records_.begin() ? records_.end() : std::prev(at_); }
  bool Valid() override { return at_ != records_.end(); }
  uint64_t Key() override { return at_->first; }
  const char* Value() override { return hides_values_ ? nullptr : at_->second.data(); }
  Status Error() override { return {}; }

 private:
  const MemoryStore::Records records_;
  const bool hides_values_;
  MemoryStore::Records::const_iterator at_ = records_.end();
};

inline Status MemoryStore::NewCursor(std::unique_ptr<KvCursor>* cursor) {
  *cursor = std::make_unique<MemoryCursor>(*this);
  return {};
}

// Runs benchmarks over a store in memory.

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    config_.num = 500;
    config_.thread_count = 3;
  }

  BenchResult Run(const std::string& benchmark, Code expected = Code::kOk) {
    config_.benchmark = benchmark;
    BenchResult result;
    const Status status = RunBenchmark(config_, &store_, &result);
    EXPECT_EQ(status.code(), expected) << benchmark << ": " << status.ToString();
    return result;
  }

  std::set<uint64_t> Keys() const {
    std::set<uint64_t> keys;
    for (const auto& [key, value] : store_.Snapshot()) keys.insert(key);
    return keys;
  }

  BenchConfig config_;
  MemoryStore store_;
};

}  // namespace engine_race::harness

#endif  // TEST_HARNESS_BENCH_MEMORY_STORE_H_
