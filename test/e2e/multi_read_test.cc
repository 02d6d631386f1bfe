// MultiRead and ReadAsync: the same answers as Read, whatever else goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

std::string SpreadKeyBytes(uint64_t number) { return KeyOf(number * 0x9e3779b97f4a7c15); }

void FlipByte(const std::string& path, std::streamoff offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(offset);
  file.put(byte);
  ASSERT_TRUE(file.good()) << path;
}

struct Answers {
  explicit Answers(size_t count) : values(count), statuses(count) {}
  std::vector<std::string> values;
  std::vector<Status> statuses;
};

class MultiReadTest : public ::testing::TestWithParam<IoBackend> {
 protected:
  void Open(Options options) {
    options.io_backend = GetParam();
    options.log = [this](LogLevel level, std::string_view message) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (level == LogLevel::kError) errors_.emplace_back(message);
    };
    store_.reset();
    ASSERT_TRUE(Store::Open(AsRun(options), dir_.path(), &store_).ok());
  }

  void Fill(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(store_->Write(SpreadKeyBytes(i), ValueOf(i, 1)).ok());
    }
  }

  // Keys [0, count) and as many that are not there, in a shuffled order.
  void ExpectAll(uint64_t count, size_t keys_per_call, uint64_t seed = 1) {
    std::vector<uint64_t> numbers(2 * count);
    for (uint64_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937_64(seed));
    Answers answers(keys_per_call);
    for (size_t begin = 0; begin < numbers.size(); begin += keys_per_call) {
      const size_t n = std::min(keys_per_call, numbers.size() - begin);
      std::vector<std::string> bytes;
      for (size_t i = 0; i < n; ++i) bytes.push_back(SpreadKeyBytes(numbers[begin + i]));
      const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
      ASSERT_TRUE(store_->MultiRead(keys, answers.values, answers.statuses).ok());
      for (size_t i = 0; i < n; ++i) {
        const uint64_t number = numbers[begin + i];
        if (number >= count) {
          ASSERT_EQ(Code::kNotFound, answers.statuses[i].code()) << number;
          continue;
        }
        ASSERT_TRUE(answers.statuses[i].ok()) << answers.statuses[i].ToString();
        ASSERT_TRUE(answers.values[i] == ValueOf(number, 1)) << number;
      }
    }
  }

  std::vector<std::string> errors() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return errors_;
  }

  TempDir dir_;
  std::mutex mutex_;
  std::vector<std::string> errors_;
  std::unique_ptr<Store> store_;
};

TEST_P(MultiReadTest, AnswersLikeReadStagedAndInTheLog) {
  Open(TinyOptions());
  Fill(1001);
  ExpectAll(1001, 1);
  ExpectAll(1001, 7);
  ExpectAll(1001, 1024);
  ExpectAll(1001, 4096);
  Open(TinyOptions());
  ExpectAll(1001, 300);
  EXPECT_TRUE(errors().empty()) << errors()[0];
}

TEST_P(MultiReadTest, AnEmptyStoreAndAnEmptyCall) {
  Open(TinyOptions());
  ExpectAll(0, 10);
  EXPECT_TRUE(store_->MultiRead({}, {}, {}).ok());
  const std::string key = SpreadKeyBytes(1);
  const std::vector<std::string_view> keys(50, key);
  Answers answers(50);
  ASSERT_TRUE(store_->MultiRead(keys, answers.values, answers.statuses).ok());
  for (const Status& status : answers.statuses) EXPECT_EQ(Code::kNotFound, status.code());
}

TEST_P(MultiReadTest, ABadKeyFailsAlone) {
  Open(TinyOptions());
  Fill(10);
  std::vector<std::string> bytes;
  for (uint64_t i = 0; i < 10; ++i) bytes.push_back(SpreadKeyBytes(i));
  bytes[3] = "short";
  bytes[7] = "far too long";
  std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  keys[5] = std::string_view();
  Answers answers(12);
  answers.values[3] = "untouched";
  answers.values[11] = "untouched too";
  ASSERT_TRUE(store_->MultiRead(keys, answers.values, answers.statuses).ok());
  for (size_t i = 0; i < 10; ++i) {
    if (i == 3 || i == 5 || i == 7) {
      EXPECT_EQ(Code::kInvalidArgument, answers.statuses[i].code()) << i;
    } else {
      EXPECT_TRUE(answers.statuses[i].ok()) << i;
      EXPECT_TRUE(answers.values[i] == ValueOf(i, 1)) << i;
    }
  }
  EXPECT_EQ("untouched", answers.values[3]);
  EXPECT_EQ("untouched too", answers.values[11]);
  EXPECT_EQ(3u, errors().size());
}

TEST_P(MultiReadTest, MoreKeysThanValuesOrStatusesIsRefused) {
  Open(TinyOptions());
  Fill(3);
  const std::string key = SpreadKeyBytes(1);
  const std::vector<std::string_view> keys(3, key);
  Answers answers(3);
  const std::span<std::string> values(answers.values);
  const std::span<Status> statuses(answers.statuses);
  EXPECT_EQ(Code::kInvalidArgument, store_->MultiRead(keys, values.first(2), statuses).code());
  EXPECT_EQ(Code::kInvalidArgument, store_->MultiRead(keys, values, statuses.first(2)).code());
  EXPECT_EQ("", answers.values[0]);
  EXPECT_EQ(2u, errors().size());
}

TEST_P(MultiReadTest, DamageIsItsKeysAlone) {
  Options options = TinyOptions();
  options.bucket_count = options.file_count = 1;
  Open(options);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(store_->Write(KeyOf(i), ValueOf(i, 1)).ok());
  }
  store_.reset();
  FlipByte(dir_.Join("value_00"), 42 * 4096 + 99);
  Open(options);
  std::vector<std::string> bytes;
  for (uint64_t i = 0; i < 100; ++i) bytes.push_back(KeyOf(i));
  const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  Answers answers(100);
  ASSERT_TRUE(store_->MultiRead(keys, answers.values, answers.statuses).ok());
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(i == 42 ? Code::kCorruption : Code::kOk, answers.statuses[i].code()) << i;
  }
  EXPECT_EQ("", answers.values[42]);
  ASSERT_EQ(1u, errors().size());
  EXPECT_NE(std::string::npos, errors()[0].find("slot 42")) << errors()[0];
}

// More callers than workers: some work for the others.
TEST_P(MultiReadTest, ManyCallersOnFewWorkers) {
  Options options = TinyOptions();
  options.worker_count = 2;
  options.tasks_per_worker = 16;
  Open(options);
  Fill(400);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 24; ++t) {
    threads.emplace_back([this, t] { ExpectAll(400, 1 + t * 5, t); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The one worker goes from caller to caller with reads in flight, also when a caller's thread ends
// right after its call.
TEST_P(MultiReadTest, AWorkerOutlivesTheThreadsThatRunIt) {
  Options options = TinyOptions();
  options.worker_count = 1;
  options.tasks_per_worker = 32;
  Open(options);
  Fill(500);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 6; ++t) {
      threads.emplace_back([this, t] {
        std::vector<std::string> bytes;
        for (uint64_t i = 0; i < 100; ++i) bytes.push_back(SpreadKeyBytes((t * 90 + i) % 500));
        const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
        Answers answers(keys.size());
        ASSERT_TRUE(store_->MultiRead(keys, answers.values, answers.statuses).ok());
        for (uint64_t i = 0; i < 100; ++i) {
          ASSERT_TRUE(answers.statuses[i].ok()) << answers.statuses[i].ToString();
          ASSERT_TRUE(answers.values[i] == ValueOf((t * 90 + i) % 500, 1)) << i;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_P(MultiReadTest, BesideWritersAndRanges) {
  Open(TinyOptions());
  Fill(300);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t i = 1000; !stop; ++i) {
      ASSERT_TRUE(store_->Write(SpreadKeyBytes(i), ValueOf(i, 2)).ok());
    }
  });
  std::thread scanner([&] {
    while (!stop) {
      ASSERT_TRUE(store_->Range("", KeyOf(~uint64_t{0} >> 2), [](auto, auto) {}).ok());
    }
  });
  for (int i = 0; i < 5; ++i) ExpectAll(300, 100, static_cast<uint64_t>(i));
  stop = true;
  writer.join();
  scanner.join();
}

// What asynchronous reads answer, counted.
class Outstanding {
 public:
  void Add() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
  }
  void Done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--count_ == 0) changed_.notify_all();
  }
  void WaitForNone() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST_P(MultiReadTest, AsynchronousReadsAnswerOnce) {
  Open(TinyOptions());
  Fill(500);
  Answers answers(1000);
  std::vector<std::atomic<int>> calls(1000);
  Outstanding outstanding;
  for (int round = 1; round <= 3; ++round) {
    for (uint64_t i = 0; i < 1000; ++i) {
      outstanding.Add();
      ASSERT_TRUE(store_
                      ->ReadAsync(SpreadKeyBytes(i), &answers.values[i],
                                  [&, i](const Status& status) {
                                    answers.statuses[i] = status;
                                    ++calls[i];
                                    outstanding.Done();
                                  })
                      .ok());
    }
    outstanding.WaitForNone();
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(round, calls[i]);
      ASSERT_EQ(i < 500 ? Code::kOk : Code::kNotFound, answers.statuses[i].code()) << i;
      if (i < 500) {
        ASSERT_TRUE(answers.values[i] == ValueOf(i, 1)) << i;
      }
    }
  }
}

TEST_P(MultiReadTest, ACallbackMayStartTheNextRead) {
  Open(TinyOptions());
  Fill(200);
  Outstanding outstanding;
  std::string value;
  std::vector<uint64_t> seen;
  std::function<void(uint64_t)> next = [&](uint64_t i) {
    ASSERT_TRUE(store_
                    ->ReadAsync(SpreadKeyBytes(i), &value,
                                [&, i](const Status& status) {
                                  ASSERT_TRUE(status.ok());
                                  ASSERT_TRUE(value == ValueOf(i, 1));
                                  seen.push_back(i);
                                  if (i + 1 < 200) next(i + 1);
                                  if (i + 1 == 200) outstanding.Done();
                                })
                    .ok());
  };
  outstanding.Add();
  next(0);
  outstanding.WaitForNone();
  ASSERT_EQ(200u, seen.size());
  EXPECT_EQ(199u, seen.back());
}

TEST_P(MultiReadTest, TheDestructorWaitsForAsynchronousReads) {
  Open(TinyOptions());
  Fill(300);
  Answers answers(300);
  std::atomic<int> done{0};
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(store_
                    ->ReadAsync(SpreadKeyBytes(i), &answers.values[i],
                                [&](const Status& status) { done += status.ok() ? 1 : 0; })
                    .ok());
  }
  store_.reset();
  EXPECT_EQ(300, done);
}

TEST_P(MultiReadTest, BadAsynchronousReadsAreRefusedAtOnce) {
  Open(TinyOptions());
  std::string value;
  const auto never = [](const Status&) { FAIL() << "it was refused"; };
  EXPECT_EQ(Code::kInvalidArgument, store_->ReadAsync("short", &value, never).code());
  EXPECT_EQ(Code::kInvalidArgument, store_->ReadAsync(SpreadKeyBytes(1), nullptr, never).code());
  EXPECT_EQ(Code::kInvalidArgument, store_->ReadAsync(SpreadKeyBytes(1), &value, nullptr).code());
}

TEST_P(MultiReadTest, ACallbackThatThrowsIsReported) {
  Open(TinyOptions());
  Fill(1);
  std::string value;
  ASSERT_TRUE(
      store_->ReadAsync(SpreadKeyBytes(0), &value, [](const Status&) { throw std::string("no"); })
          .ok());
  store_.reset();
  ASSERT_EQ(1u, errors().size());
}

TEST_P(MultiReadTest, BothKindsAtOnceOnOneWorker) {
  Options options = TinyOptions();
  options.worker_count = 1;
  options.tasks_per_worker = 4;
  Open(options);
  Fill(300);
  std::thread batches([this] { ExpectAll(300, 50); });
  Answers answers(300);
  Outstanding outstanding;
  for (uint64_t i = 0; i < 300; ++i) {
    outstanding.Add();
    ASSERT_TRUE(store_
                    ->ReadAsync(SpreadKeyBytes(i), &answers.values[i],
                                [&, i](const Status& status) {
                                  answers.statuses[i] = status;
                                  outstanding.Done();
                                })
                    .ok());
  }
  outstanding.WaitForNone();
  batches.join();
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(answers.values[i] == ValueOf(i, 1)) << i;
  const StoreStats stats = store_->Stats();
  EXPECT_GT(stats.task_memory_bytes, 4u * 4096);
  EXPECT_LT(stats.task_memory_bytes, 4u * 8192);
}

INSTANTIATE_TEST_SUITE_P(Backends, MultiReadTest,
                         ::testing::Values(IoBackend::kAuto, IoBackend::kPsync, IoBackend::kLibaio,
                                           IoBackend::kIoUring),
                         [](const ::testing::TestParamInfo<IoBackend>& info) {
                           switch (info.param) {
                             case IoBackend::kPsync:
                               return "Psync";
                             case IoBackend::kLibaio:
                               return "Libaio";
                             case IoBackend::kIoUring:
                               return "IoUring";
                             default:
                               return "Auto";
                           }
                         });

}  // namespace
}  // namespace engine_race::test
