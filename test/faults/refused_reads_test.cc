// A store whose back end of reads is refused after the opening, as by a filter of system calls.
// Every call that reads goes on, by the next back end.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine_race/index/index.h"
#include "engine_race/log/bucket_log.h"
#include "engine_race/store.h"
#include "test/eventually.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRecords = 2000;

// Refuses back ends from when it is told on. Calls of any number of threads.
class RefusedBackEnds : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const bool is_uring = call->kind == CallKind::kUringEnter;
    const bool is_libaio =
        call->kind == CallKind::kIoSubmit || call->kind == CallKind::kIoGetEvents;
    if ((is_uring && uring != 0) || (is_libaio && libaio != 0)) {
      errno = is_uring ? uring : libaio;
      return -1;
    }
    return call->Proceed();
  }
  // Each an errno, or 0.
  std::atomic<int> uring{0};
  std::atomic<int> libaio{0};
};

class RefusedReadsTest : public ::testing::TestWithParam<int> {
 protected:
  void Open(IoBackend backend) {
    Options options;
    options.bucket_count = 4;
    options.file_count = 2;
    options.value_group_bytes = 8192;
    options.io_backend = backend;
    // Every value is read from the log.
    options.hot_value_bytes = 0;
    options.log = [this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kInfo) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.emplace_back(message);
    };
    ASSERT_TRUE(Store::Open(options, dir_.path(), &store_).ok());
    // The order of the slots is not that of the keys.
    for (uint64_t i = 0; i < kRecords; ++i) {
      const uint64_t number = i * 37 % kRecords;
      ASSERT_TRUE(store_->Write(KeyOf(KeyAt(number)), ValueOf(KeyAt(number), 1)).ok());
    }
  }
  static uint64_t KeyAt(uint64_t number) { return number << 53; }

  // Every call that reads many values at once.
  void ReadAll() {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < kRecords; ++i) keys.push_back(KeyAt(i));
    std::vector<char> rows(kRecords * kValueBytes);
    std::vector<Code> codes(kRecords);
    ASSERT_TRUE(store_->MultiReadInto(keys, rows.data(), codes).ok());
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_EQ(codes[i], Code::kOk) << i;
      ASSERT_EQ(std::string(rows.data() + i * kValueBytes, kValueBytes), ValueOf(keys[i], 1)) << i;
    }
    Snapshot snapshot;
    ASSERT_TRUE(store_->GetSnapshot(&snapshot).ok());
    for (const uint64_t count : {uint64_t{40}, kRecords}) {
      ExpectRange(nullptr, count);
      ExpectRange(&snapshot, count);
    }
    IteratorOptions options;
    options.prefetch_records = 64;
    Iterator at;
    ASSERT_TRUE(store_->NewIterator(options, &at).ok());
    at.SeekToFirst();
    for (uint64_t i = 0; i < kRecords; ++i, at.Next()) {
      ASSERT_TRUE(at.Valid()) << at.status().ToString();
      ASSERT_EQ(at.value(), ValueOf(KeyAt(i), 1)) << i;
    }
    PostAll();
  }

  void ExpectRange(const Snapshot* snapshot, uint64_t count) {
    uint64_t next = 0;
    const VisitFn visit = [&](std::string_view key, std::string_view value) {
      EXPECT_EQ(key, KeyOf(KeyAt(next)));
      EXPECT_EQ(value, ValueOf(KeyAt(next), 1));
      ++next;
    };
    const std::string end = count == kRecords ? std::string() : KeyOf(KeyAt(count));
    const Status status = snapshot == nullptr ? store_->Range({}, end, visit)
                                              : store_->Range(*snapshot, {}, end, visit);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(next, count);
  }

  void PostAll() {
    std::vector<std::string> values(kRecords);
    std::atomic<uint64_t> good_count{0};
    std::atomic<uint64_t> done_count{0};
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(store_
                      ->ReadAsync(KeyOf(KeyAt(i)), &values[i],
                                  [&](const Status& status) {
                                    if (status.ok()) ++good_count;
                                    ++done_count;
                                  })
                      .ok());
    }
    ASSERT_TRUE(Eventually([&] { return done_count == kRecords; }));
    EXPECT_EQ(good_count, kRecords);
    for (uint64_t i = 0; i < kRecords; ++i) ASSERT_EQ(values[i], ValueOf(KeyAt(i), 1)) << i;
  }

  std::vector<std::string> TakeLines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(lines_, {});
  }

  TempDir dir_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  RefusedBackEnds hook_;
  const ScopedHook scope_{&hook_};
  std::unique_ptr<Store> store_;
};

TEST_P(RefusedReadsTest, EveryCallGoesOnByTheNextBackEnd) {
  ASSERT_NO_FATAL_FAILURE(Open(IoBackend::kIoUring));
  ASSERT_NO_FATAL_FAILURE(ReadAll());
  ASSERT_EQ(store_->Stats().io_backend, "io_uring");
  EXPECT_TRUE(TakeLines().empty());
  hook_.uring = GetParam();
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(ReadAll());
  EXPECT_EQ(store_->Stats().io_backend, "libaio");
  const std::vector<std::string> first = TakeLines();
  ASSERT_EQ(first.size(), 1U) << ::testing::PrintToString(first);
  EXPECT_NE(first[0].find("refuses io_uring: reads go through libaio"), std::string::npos);
  hook_.libaio = GetParam();
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(ReadAll());
  EXPECT_EQ(store_->Stats().io_backend, "psync");
  const std::vector<std::string> second = TakeLines();
  ASSERT_EQ(second.size(), 1U) << ::testing::PrintToString(second);
  EXPECT_NE(second[0].find("refuses libaio: reads go through psync"), std::string::npos);
}

// Key logs are read by the back end, too.
TEST_P(RefusedReadsTest, AnIndexIsBuilt) {
  for (const IoBackend backend : {IoBackend::kIoUring, IoBackend::kLibaio}) {
    const TempDir dir;
    Options options;
    options.bucket_count = options.file_count = 1;
    options.io_backend = backend;
    std::unique_ptr<BucketLog> log;
    ASSERT_TRUE(BucketLog::Open(options, dir.path(), &log).ok());
    for (uint64_t key = 0; key < kRecords; ++key) {
      ASSERT_TRUE(log->Append(key, ValueOf(key, 1).data()).ok());
    }
    hook_.uring = hook_.libaio = GetParam();
    std::unique_ptr<Index> index;
    ASSERT_TRUE(Index::Build(log.get(), options, &index).ok());
    ValueRef ref;
    for (uint64_t key = 0; key < kRecords; ++key) ASSERT_TRUE(index->Find(key, &ref).ok()) << key;
    hook_.uring = hook_.libaio = 0;
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, RefusedReadsTest, ::testing::Values(EPERM, ENOSYS));

}  // namespace
}  // namespace engine_race::test
