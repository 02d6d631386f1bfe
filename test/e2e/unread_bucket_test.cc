// One key log that cannot be read, as a user of the store sees it: every call that does not need
// the bucket works, every other one says what is wrong, and all is well once the fault has passed.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine_race/store.h"
#include "test/e2e/engine_fixture.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kRecords = 300;

// Reads of the first key file, and so of the first two buckets of four, fail.
class KeyFileFault : public SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPread && fails && PathOfFd(call->fd).ends_with("key_00")) {
      errno = EIO;
      return -1;
    }
    return call->Proceed();
  }
  std::atomic<bool> fails{false};
};

// Key i of a bucket.
uint64_t KeyIn(uint64_t bucket, uint64_t i) { return (bucket << 62) + i; }

TEST(UnreadBucketTest, EveryCallSaysSoOrWorks) {
  const TempDir dir(FastParent());
  KeyFileFault fault;
  const ScopedHook hook(&fault);
  Options options = TinyOptions();
  options.io_backend = IoBackend::kPsync;
  const std::unique_ptr<Store> store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  for (uint64_t bucket = 0; bucket < 4; ++bucket) {
    for (uint64_t i = 0; i < kRecords; ++i) {
      const uint64_t key = KeyIn(bucket, i);
      ASSERT_TRUE(store->Write(KeyOf(key), ValueOf(key, 1)).ok());
    }
  }
  fault.fails = true;
  std::string value;
  EXPECT_EQ(store->Read(KeyOf(KeyIn(1, 0)), &value).code(), Code::kIOError);
  EXPECT_TRUE(store->Read(KeyOf(KeyIn(2, 0)), &value).ok());
  EXPECT_TRUE(store->Write(KeyOf(KeyIn(1, kRecords)), ValueOf(KeyIn(1, kRecords), 1)).ok());

  const std::vector<std::string> bytes = {KeyOf(KeyIn(0, 1)), KeyOf(KeyIn(2, 1)),
                                          KeyOf(KeyIn(1, kRecords)), KeyOf(KeyIn(3, 1))};
  const std::vector<std::string_view> keys(bytes.begin(), bytes.end());
  std::vector<std::string> values(4);
  std::vector<Status> statuses(4);
  ASSERT_TRUE(store->MultiRead(keys, values, statuses).ok());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(statuses[i].code(), i % 2 == 0 ? Code::kIOError : Code::kOk) << i;
  }

  uint64_t visited = 0;
  const auto count = [&visited](auto, auto) { ++visited; };
  EXPECT_EQ(store->Range("", "", count).code(), Code::kIOError);
  EXPECT_EQ(visited, 0U) << "nothing is skipped silently";
  EXPECT_TRUE(store->Range(KeyOf(KeyIn(2, 0)), "", count).ok());
  EXPECT_EQ(visited, 2 * kRecords);
  Snapshot snapshot;
  ASSERT_TRUE(store->GetSnapshot(&snapshot).ok());
  EXPECT_EQ(store->Read(snapshot, KeyOf(KeyIn(0, 1)), &value).code(), Code::kIOError);
  EXPECT_TRUE(store->Read(snapshot, KeyOf(KeyIn(3, 1)), &value).ok());
  EXPECT_EQ(store->Range(snapshot, "", "", count).code(), Code::kIOError);
  Iterator iterator;
  ASSERT_TRUE(store->NewIterator({}, &iterator).ok());
  iterator.SeekToFirst();
  EXPECT_FALSE(iterator.Valid());
  EXPECT_EQ(iterator.status().code(), Code::kIOError);

  fault.fails = false;
  // The pause after the attempts may not be over.
  while (!store->Read(KeyOf(KeyIn(1, kRecords)), &value).ok() ||
         !store->Read(KeyOf(KeyIn(0, 0)), &value).ok()) {
  }
  visited = 0;
  EXPECT_TRUE(store->Range("", "", count).ok());
  EXPECT_EQ(visited, 4 * kRecords + 1);
  EXPECT_TRUE(store->Read(snapshot, KeyOf(KeyIn(0, 1)), &value).ok()) << "unchanged all the time";
  EXPECT_EQ(store->Read(snapshot, KeyOf(KeyIn(1, 1)), &value).code(), Code::kIOError);
}

// A callback of a read may start other reads; once the store is being closed they are refused.
TEST(ClosingStoreTest, RefusesReadsAndAnswersThoseBefore) {
  const TempDir dir(FastParent());
  Options options = TinyOptions();
  options.worker_count = 2;
  std::unique_ptr<Store> store = OpenStore(dir.path(), options);
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(store->Write(KeyOf(1), ValueOf(1, 1)).ok());
  Store* const raw = store.get();
  std::atomic<bool> entered{false};
  std::atomic<uint64_t> answered{0};
  std::vector<std::unique_ptr<std::string>> values;
  Status refused;
  std::string first;
  ASSERT_TRUE(raw->ReadAsync(KeyOf(1), &first,
                             [&](const Status&) {
                               entered = true;
                               while (refused.ok() || refused.code() == Code::kBusy) {
                                 std::this_thread::yield();
                                 // Where too many are pending the same one is tried again.
                                 if (!refused.ok()) values.pop_back();
                                 values.push_back(std::make_unique<std::string>());
                                 refused = raw->ReadAsync(
                                     KeyOf(1), values.back().get(), [&](const Status& status) {
                                       EXPECT_TRUE(status.ok());
                                       EXPECT_EQ(raw->Stats().record_count, 1U);
                                       ++answered;
                                     });
                               }
                             })
                  .ok());
  while (!entered) std::this_thread::yield();
  store.reset();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.ToString();
  EXPECT_EQ(answered + 1, values.size());
}

}  // namespace
}  // namespace engine_race::test
