// A pool with one worker over a real log.
#ifndef TEST_TASK_READ_POOL_FIXTURE_H_
#define TEST_TASK_READ_POOL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/task/point_reader.h"
#include "engine_race/task/read_pool.h"
#include "test/test_util.h"

namespace engine_race::test {

class ReadPoolTest : public ::testing::Test {
 protected:
  // One worker, `record_count` records; the last ones are staged.
  void Open(uint64_t record_count, IoBackend backend = IoBackend::kPsync) {
    options_.bucket_count = options_.file_count = 1;
    options_.value_group_bytes = 8192;
    options_.worker_count = 1;
    options_.tasks_per_worker = 8;
    options_.io_backend = backend;
    // Unless a test sets it: functions of reads start as many others as they like.
    if (options_.async_read_limit == 0) options_.async_read_limit = kMaxAsyncReadLimit;
    options_.log = [this](LogLevel, std::string_view message) {
      if (on_message_) on_message_(message);
    };
    const Status opened = BucketLog::Open(options_, dir_.path(), &log_);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    for (uint64_t key = 0; key < record_count; ++key) {
      ASSERT_TRUE(log_->Append(key, ValueOf(key, 1).data()).ok());
    }
    ASSERT_TRUE(Index::Build(log_.get(), options_, &index_).ok());
    reader_ = std::make_unique<PointReader>(*log_, *index_, nullptr, true);
    pool_ = std::make_unique<ReadPool>(*reader_, options_, std::vector<int>());
  }
  ~ReadPoolTest() override { pool_.reset(); }

  Status Post(uint64_t key, std::string* value, std::function<void(const Status&)> done) {
    auto read = std::make_unique<PostedRead>();
    read->key = key;
    read->value = value;
    read->done = std::move(done);
    return pool_->Post(std::move(read));
  }

  // A MultiRead of `count` times the same key.
  void ReadKeys(std::string_view key, size_t count) {
    const std::vector<std::string_view> keys(count, key);
    std::vector<std::string> values(count);
    std::vector<Status> statuses(count);
    pool_->MultiRead(keys, values, statuses);
  }

  void WaitUntilWaiting(uint32_t source_count) const {
    while (pool_->waiting_count() < source_count) std::this_thread::yield();
  }

  TempDir dir_{FastParent()};
  Options options_;
  // A bad key is reported when it is taken, by the thread that takes it.
  std::function<void(std::string_view)> on_message_;
  std::unique_ptr<BucketLog> log_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<PointReader> reader_;
  std::unique_ptr<ReadPool> pool_;
};

}  // namespace engine_race::test

#endif  // TEST_TASK_READ_POOL_FIXTURE_H_
