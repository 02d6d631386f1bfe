// A store of 600 keys whose values may come from memory, and every kind of read of it.
#ifndef TEST_E2E_HOT_VALUES_FIXTURE_H_
#define TEST_E2E_HOT_VALUES_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "test/e2e/engine_fixture.h"

namespace engine_race::test {

class HotValuesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kKeys = 600;
  static uint64_t NthKey(uint64_t i) { return (i + 1) << 52; }

  HotValuesTest() {
    options_.bucket_count = 4;
    options_.file_count = 2;
    options_.value_group_bytes = 8192;
    options_.memory_budget_bytes = 32 << 20;
    options_.worker_count = 1;
    options_.tasks_per_worker = 16;
  }
  void Open() { store_ = OpenStore(dir_.path(), options_); }
  void OpenAndFill() {
    Open();
    for (uint64_t i = 0; i < kKeys; ++i) Write(i, 1);
  }
  void Write(uint64_t n, uint64_t version) {
    const Status status = store_->Write(KeyOf(NthKey(n)), ValueOf(NthKey(n), version));
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  uint64_t Version(uint64_t n) { return VersionOf(store_.get(), NthKey(n)); }
  // Often enough to be kept.
  void Warm(uint64_t begin, uint64_t end) {
    for (int i = 0; i < 4; ++i) {
      for (uint64_t n = begin; n < end; ++n) ASSERT_NE(Version(n), 0u);
    }
  }
  // Makes every value in the log unreadable, behind the engine's back.
  void TruncateLogs() {
    uint32_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename();
      if (name.rfind("value", 0) != 0) continue;
      ASSERT_EQ(::truncate(entry.path().c_str(), 0), 0);
      ++count;
    }
    ASSERT_EQ(count, options_.file_count);
  }
  std::vector<Status> MultiRead(const std::vector<uint64_t>& numbers,
                                std::vector<std::string>* values) {
    std::vector<std::string> bytes;
    for (const uint64_t n : numbers) bytes.push_back(KeyOf(NthKey(n)));
    const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
    std::vector<Status> statuses(keys.size());
    values->resize(keys.size());
    EXPECT_TRUE(store_->MultiRead(keys, *values, statuses).ok());
    return statuses;
  }
  Status ReadAsync(uint64_t n, std::string* value) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    Status result;
    EXPECT_TRUE(store_
                    ->ReadAsync(KeyOf(NthKey(n)), value,
                                [&](const Status& status) {
                                  const std::lock_guard lock(mutex);
                                  result = status;
                                  done = true;
                                  changed.notify_one();
                                })
                    .ok());
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
    return result;
  }

  TempDir dir_{FastParent()};
  Options options_;
  std::unique_ptr<Store> store_;
};

}  // namespace engine_race::test

#endif  // TEST_E2E_HOT_VALUES_FIXTURE_H_
