// How many asynchronous reads a store takes: see Options::async_read_limit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/store.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

class AsyncReadBoundTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kLimit = 64;

  AsyncReadBoundTest() : values_(kLimit) {
    Options options;
    options.worker_count = 1;
    options.async_read_limit = kLimit;
    options.async_read_waits = false;
    options.log = [this](LogLevel, std::string_view) { ++message_count_; };
    EXPECT_TRUE(Store::Open(options, dir_.path(), &store_).ok());
    for (uint32_t i = 0; i < kLimit; ++i) {
      EXPECT_TRUE(store_->Write(KeyOf(i), ValueOf(i, 1)).ok());
    }
    // The function of the first read holds up the only worker. So all that is started waits.
    for (uint32_t i = 0; i < kLimit; ++i) {
      EXPECT_TRUE(store_
                      ->ReadAsync(KeyOf(i), &values_[i],
                                  [this](const Status& status) {
                                    EXPECT_TRUE(status.ok());
                                    leave_.wait();
                                    ++answered_;
                                  })
                      .ok());
    }
  }

  TempDir dir_{FastParent()};
  std::atomic<uint64_t> message_count_{0};
  std::atomic<uint64_t> answered_{0};
  std::vector<std::string> values_;
  std::latch leave_{1};
  std::unique_ptr<Store> store_;
};

TEST_F(AsyncReadBoundTest, AtTheLimitOneMoreIsBusyAndNoFailureOfTheStore) {
  const uint64_t message_count = message_count_;
  std::string value = "as it was";
  const auto never = [](const Status&) { ADD_FAILURE(); };
  EXPECT_EQ(store_->ReadAsync(KeyOf(0), &value, never).code(), Code::kBusy);
  EXPECT_EQ(store_->ReadAsyncInto(0, value.data(), never).code(), Code::kBusy);
  EXPECT_EQ(value, "as it was");
  EXPECT_EQ(message_count_, message_count);
  const StoreStats stats = store_->Stats();
  EXPECT_EQ(stats.error_counts[static_cast<size_t>(Code::kBusy)], 2U);
  EXPECT_EQ(stats.pending_async_read_count, kLimit);
  EXPECT_EQ(stats.most_pending_async_read_count, kLimit);
  leave_.count_down();
}

// Closing reads what was started and calls each function, as many as the limit allows.
TEST_F(AsyncReadBoundTest, ClosingAnswersAllThatWasStarted) {
  leave_.count_down();
  store_.reset();
  EXPECT_EQ(answered_, kLimit);
  for (uint32_t i = 0; i < kLimit; ++i) EXPECT_TRUE(values_[i] == ValueOf(i, 1)) << i;
}

}  // namespace
}  // namespace engine_race::test
