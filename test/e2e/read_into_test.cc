// Reads into memory of the caller: the same answers as Read, and no byte beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine_race/base/key.h"
#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

uint64_t NumberOf(uint64_t i) { return i * 0x9e3779b97f4a7c15; }

// Rows of values with a row that nobody may touch on either side.
class Rows {
 public:
  explicit Rows(size_t count) : bytes_((count + 2) * kValueBytes, kUntouched) {}
  char* data() { return bytes_.data() + kValueBytes; }
  std::string_view row(size_t i) { return {data() + i * kValueBytes, kValueBytes}; }
  bool IsUntouched(size_t i) { return row(i) == std::string(kValueBytes, kUntouched); }
  bool EndsAreUntouched() {
    const std::string untouched(kValueBytes, kUntouched);
    return std::string_view(bytes_).starts_with(untouched) &&
           std::string_view(bytes_).ends_with(untouched);
  }

 private:
  std::string bytes_;
};

class ReadIntoTest : public ::testing::TestWithParam<IoBackend> {
 protected:
  void SetUp() override { Open(TinyOptions()); }

  void Open(Options options) {
    options.io_backend = GetParam();
    store_.reset();
    ASSERT_TRUE(Store::Open(AsRun(options), dir_.path(), &store_).ok());
  }

  void Fill(uint64_t count, uint64_t version) {
    for (uint64_t i = 0; i < count; ++i) {
      const KeyBytes key(NumberOf(i));
      ASSERT_TRUE(store_->Write(key.view(), ValueOf(i, version)).ok());
    }
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_P(ReadIntoTest, OneRecord) {
  Fill(300, 1);
  Rows rows(1);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(store_->ReadInto(NumberOf(i), rows.data()).ok()) << i;
    ASSERT_TRUE(rows.row(0) == ValueOf(i, 1)) << i;
  }
  EXPECT_TRUE(rows.EndsAreUntouched());
  Rows missing(1);
  EXPECT_EQ(Code::kNotFound, store_->ReadInto(NumberOf(300), missing.data()).code());
  EXPECT_TRUE(missing.IsUntouched(0));
  EXPECT_EQ(Code::kInvalidArgument, store_->ReadInto(NumberOf(0), nullptr).code());
}

TEST_P(ReadIntoTest, ManyRecordsStagedAndInTheLog) {
  constexpr uint64_t kCount = 1001;
  Fill(kCount, 2);
  ASSERT_TRUE(store_->Delete(KeyBytes(NumberOf(17)).view()).ok());
  std::vector<uint64_t> keys(2 * kCount);
  for (uint64_t i = 0; i < keys.size(); ++i) keys[i] = i;
  std::shuffle(keys.begin(), keys.end(), std::mt19937_64(3));
  for (const bool reopened : {false, true}) {
    if (reopened) Open(TinyOptions());
    std::vector<uint64_t> numbers;
    numbers.reserve(keys.size());
    for (const uint64_t i : keys) numbers.push_back(NumberOf(i));
    Rows rows(keys.size());
    std::vector<Code> codes(keys.size() + 1, Code::kIncomplete);
    ASSERT_TRUE(store_->MultiReadInto(numbers, rows.data(), codes).ok());
    for (size_t n = 0; n < keys.size(); ++n) {
      if (keys[n] >= kCount || keys[n] == 17) {
        ASSERT_EQ(Code::kNotFound, codes[n]) << keys[n];
        ASSERT_TRUE(rows.IsUntouched(n)) << keys[n];
      } else {
        ASSERT_EQ(Code::kOk, codes[n]) << keys[n];
        ASSERT_TRUE(rows.row(n) == ValueOf(keys[n], 2)) << keys[n];
      }
    }
    EXPECT_EQ(Code::kIncomplete, codes.back());
    EXPECT_TRUE(rows.EndsAreUntouched());
  }
}

TEST_P(ReadIntoTest, BadCallsReadNothing) {
  Fill(2, 1);
  const std::vector<uint64_t> keys = {NumberOf(0), NumberOf(1)};
  Rows rows(2);
  std::vector<Code> codes(1, Code::kIncomplete);
  EXPECT_EQ(Code::kInvalidArgument, store_->MultiReadInto(keys, rows.data(), codes).code());
  EXPECT_EQ(Code::kIncomplete, codes[0]);
  EXPECT_TRUE(rows.IsUntouched(0));
  codes.resize(2);
  EXPECT_EQ(Code::kInvalidArgument, store_->MultiReadInto(keys, nullptr, codes).code());
  EXPECT_TRUE(store_->MultiReadInto({}, nullptr, {}).ok());
}

TEST_P(ReadIntoTest, AKeyOutOfTheStoresRangeFailsAlone) {
  TempDir dir;
  Options options = TinyOptions();
  options.io_backend = GetParam();
  options.key_range = KeyRange{100, 200};
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(AsRun(options), dir.path(), &store).ok());
  ASSERT_TRUE(store->Write(KeyBytes(100).view(), ValueOf(100, 1)).ok());
  const std::vector<uint64_t> keys = {99, 100, 201};
  Rows rows(3);
  std::vector<Code> codes(3);
  ASSERT_TRUE(store->MultiReadInto(keys, rows.data(), codes).ok());
  EXPECT_EQ((std::vector<Code>{Code::kInvalidArgument, Code::kOk, Code::kInvalidArgument}), codes);
  EXPECT_TRUE(rows.IsUntouched(0) && rows.row(1) == ValueOf(100, 1) && rows.IsUntouched(2));
  EXPECT_EQ(Code::kInvalidArgument, store->ReadInto(99, rows.data()).code());
}

TEST_P(ReadIntoTest, StartedReads) {
  Fill(50, 1);
  Rows rows(51);
  std::vector<std::promise<Code>> answers(51);
  for (uint64_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(store_
                    ->ReadAsyncInto(NumberOf(i), rows.data() + i * kValueBytes,
                                    [&answers, i](const Status& status) {
                                      answers[i].set_value(status.code());
                                    })
                    .ok());
  }
  for (uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Code::kOk, answers[i].get_future().get());
    EXPECT_TRUE(rows.row(i) == ValueOf(i, 1)) << i;
  }
  EXPECT_EQ(Code::kNotFound, answers[50].get_future().get());
  EXPECT_TRUE(rows.IsUntouched(50) && rows.EndsAreUntouched());
  EXPECT_EQ(Code::kInvalidArgument,
            store_->ReadAsyncInto(NumberOf(0), nullptr, [](const Status&) {}).code());
}

TEST_P(ReadIntoTest, ASnapshotShowsItsState) {
  Fill(100, 1);
  Snapshot snapshot;
  ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
  Fill(100, 2);
  Rows rows(1);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(store_->ReadInto(snapshot, NumberOf(i), rows.data()).ok());
    ASSERT_TRUE(rows.row(0) == ValueOf(i, 1)) << i;
    ASSERT_TRUE(store_->ReadInto(NumberOf(i), rows.data()).ok());
    ASSERT_TRUE(rows.row(0) == ValueOf(i, 2)) << i;
  }
  EXPECT_TRUE(rows.EndsAreUntouched());
}

// Both kinds of batches wait for the same workers.
TEST_P(ReadIntoTest, ManyThreadsWithBothKindsOfBatches) {
  constexpr uint64_t kCount = 512;
  Fill(kCount, 1);
  std::vector<uint64_t> numbers;
  std::vector<std::string> bytes;
  numbers.reserve(kCount);
  bytes.reserve(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    numbers.push_back(NumberOf(i));
    bytes.emplace_back(KeyBytes(NumberOf(i)).view());
  }
  const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Rows rows(kCount);
      std::vector<std::string> values(kCount);
      std::vector<Code> codes(kCount);
      std::vector<Status> statuses(kCount);
      for (int round = 0; round < 5; ++round) {
        if ((t + round) % 2 == 0) {
          ASSERT_TRUE(store_->MultiReadInto(numbers, rows.data(), codes).ok());
        } else {
          ASSERT_TRUE(store_->MultiRead(keys, values, statuses).ok());
        }
        for (uint64_t i = 0; i < kCount; ++i) {
          const std::string wanted = ValueOf(i, 1);
          if ((t + round) % 2 == 0) {
            ASSERT_TRUE(codes[i] == Code::kOk && rows.row(i) == wanted) << i;
          } else {
            ASSERT_TRUE(statuses[i].ok() && values[i] == wanted) << i;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Backends, ReadIntoTest,
                         ::testing::Values(IoBackend::kPsync, IoBackend::kLibaio,
                                           IoBackend::kIoUring),
                         [](const auto& backend) {
                           return backend.param == IoBackend::kPsync    ? "Psync"
                                  : backend.param == IoBackend::kLibaio ? "Libaio"
                                                                        : "IoUring";
                         });

}  // namespace
}  // namespace engine_race::test
