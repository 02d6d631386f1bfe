// This engine behind the benchmarks' interface of stores.
#include "harness/kv/kv_store.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "harness/data/value_maker.h"
#include "test/faults/system_calls.h"
#include "test/test_util.h"

namespace engine_race::harness {
namespace {

using test::CallKind;
using test::SystemCall;

constexpr uint64_t kRecords = 300;

// A device that loses what it is told to keep.
class FailingSyncs final : public test::SystemCallHook {
 public:
  long OnCall(SystemCall* call) override {
    const bool syncs = call->kind == CallKind::kFsync || call->kind == CallKind::kFdatasync ||
                       call->kind == CallKind::kMsync;
    if (!syncs) return call->Proceed();
    errno = EIO;
    return -1;
  }
};

class EngineStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.bucket_count = 16;
    options.file_count = 4;
    ASSERT_TRUE(EngineStoreKind(options).open({.dir = temp_.Join("store")}, &store_).ok());
    for (uint64_t key = 0; key < kRecords; ++key) Put(KeyAt(key));
  }

  static uint64_t KeyAt(uint64_t number) { return number * (~uint64_t{0} / kRecords); }

  void Put(uint64_t key) {
    values_.Fill(key, key, value_.data());
    ASSERT_TRUE(store_->Put(key, value_.data()).ok());
  }
  bool IsRight(uint64_t key, const char* value) const {
    uint64_t version = 0;
    return value != nullptr && values_.CheckAll(key, value, &version) && version == key;
  }

  test::TempDir temp_{test::FastParent()};
  const ValueMaker values_{1};
  std::vector<char> value_ = std::vector<char>(kValueSize);
  std::unique_ptr<KvStore> store_;
};

TEST_F(EngineStoreTest, PutsGetsAndDeletes) {
  ASSERT_TRUE(store_->Get(KeyAt(5), value_.data()).ok());
  EXPECT_TRUE(IsRight(KeyAt(5), value_.data()));
  ASSERT_TRUE(store_->Delete(KeyAt(5)).ok());
  EXPECT_EQ(store_->Get(KeyAt(5), value_.data()).code(), Code::kNotFound);
  EXPECT_TRUE(store_->Sync().ok());
}

TEST_F(EngineStoreTest, CompactsAndKeepsTheRecords) {
  ASSERT_TRUE(store_->Delete(KeyAt(5)).ok());
  ASSERT_TRUE(store_->Compact().ok());
  EXPECT_EQ(store_->Get(KeyAt(5), value_.data()).code(), Code::kNotFound);
  ASSERT_TRUE(store_->Get(KeyAt(6), value_.data()).ok());
  EXPECT_TRUE(IsRight(KeyAt(6), value_.data()));
}

TEST_F(EngineStoreTest, MultiGetAnswersEachKey) {
  const std::vector<uint64_t> keys = {KeyAt(3), KeyAt(3) + 1, KeyAt(200)};
  std::vector<char> values(keys.size() * kValueSize);
  std::vector<Code> codes(keys.size());
  ASSERT_TRUE(store_->MultiGet(keys, values.data(), codes).ok());
  EXPECT_EQ(codes, (std::vector<Code>{Code::kOk, Code::kNotFound, Code::kOk}));
  EXPECT_TRUE(IsRight(keys[0], values.data()));
  EXPECT_TRUE(IsRight(keys[2], values.data() + 2 * kValueSize));
}

TEST_F(EngineStoreTest, ScanAllVisitsInOrderAndCanEnd) {
  uint64_t count = 0;
  ASSERT_TRUE(store_
                  ->ScanAll([&](uint64_t key, const char* value) {
                    EXPECT_EQ(key, KeyAt(count));
                    EXPECT_TRUE(IsRight(key, value));
                    ++count;
                  })
                  .ok());
  EXPECT_EQ(count, kRecords);
  const auto stop = [](uint64_t, const char*) { throw std::runtime_error("enough"); };
  EXPECT_THROW(static_cast<void>(store_->ScanAll(stop)), std::runtime_error);
}

TEST_F(EngineStoreTest, CursorsWalkBothWaysWithValues) {
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  uint64_t number = 0;
  for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) {
    ASSERT_EQ(cursor->Key(), KeyAt(number));
    ASSERT_TRUE(IsRight(cursor->Key(), cursor->Value()));
    ++number;
  }
  EXPECT_EQ(number, kRecords);
  for (cursor->SeekToLast(); cursor->Valid(); cursor->Prev()) {
    ASSERT_EQ(cursor->Key(), KeyAt(--number));
    ASSERT_TRUE(IsRight(cursor->Key(), cursor->Value()));
  }
  EXPECT_EQ(number, 0u);
  EXPECT_TRUE(cursor->Error().ok());
}

TEST_F(EngineStoreTest, CursorsTurnAroundInALongWalk) {
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  cursor->SeekToFirst();
  for (uint64_t number = 0; number < 20; ++number, cursor->Next()) {
    ASSERT_TRUE(IsRight(KeyAt(number), cursor->Value())) << number;
  }
  for (uint64_t number = 20; number > 0; --number, cursor->Prev()) {
    ASSERT_TRUE(IsRight(KeyAt(number), cursor->Value())) << number;
  }
}

TEST_F(EngineStoreTest, SeeksSeeTheLatestState) {
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t key = KeyAt(7) + 1 + i;
    cursor->Seek(key);
    ASSERT_TRUE(cursor->Valid());
    EXPECT_EQ(cursor->Key(), KeyAt(8));
    Put(key);
    cursor->Seek(key);
    ASSERT_TRUE(cursor->Valid());
    EXPECT_EQ(cursor->Key(), key);
    EXPECT_TRUE(IsRight(key, cursor->Value()));
  }
  cursor->Seek(~uint64_t{0});
  EXPECT_FALSE(cursor->Valid());
  EXPECT_TRUE(cursor->Error().ok());
}

// A walk shows the state of its seek.
TEST_F(EngineStoreTest, AWalkOutlivesDeletions) {
  std::unique_ptr<KvCursor> cursor;
  ASSERT_TRUE(store_->NewCursor(&cursor).ok());
  cursor->SeekToFirst();
  uint64_t last = 0;
  uint64_t count = 0;
  for (; cursor->Valid(); cursor->Next()) {
    ASSERT_TRUE(store_->Delete(cursor->Key()).ok());
    const char* const value = cursor->Value();
    EXPECT_TRUE(count == 0 || cursor->Key() > last);
    last = cursor->Key();
    ASSERT_TRUE(IsRight(last, value));
    ++count;
  }
  EXPECT_TRUE(cursor->Error().ok());
  EXPECT_EQ(count, kRecords);
}

TEST_F(EngineStoreTest, DescribesItself) {
  const nlohmann::json description = store_->Describe();
  EXPECT_FALSE(description["version"].get<std::string>().empty());
  EXPECT_EQ(description["options"], nlohmann::json({{"bucket_count", "16"}, {"file_count", "4"}}));
  const std::string statistics = store_->Statistics();
  EXPECT_NE(statistics.find("\nrecord_count                300\n"), std::string::npos)
      << statistics;
  EXPECT_NE(statistics.find("\nio_backend "), std::string::npos);
}

TEST_F(EngineStoreTest, TakesTheMemoryBudget) {
  store_.reset();
  const KvOptions options = {.dir = temp_.Join("other"), .memory_budget_bytes = 64 << 20};
  ASSERT_TRUE(EngineStoreKind().open(options, &store_).ok());
  EXPECT_EQ(store_->Describe()["options"]["memory_budget_bytes"], "67108864");
}

TEST_F(EngineStoreTest, ClosingReportsWritesThatAreLost) {
  Put(1);
  FailingSyncs failing;
  const test::ScopedHook hook(&failing);
  EXPECT_EQ(store_->Close().code(), Code::kIOError);
}

TEST_F(EngineStoreTest, BucketFillCountsRecords) {
  ASSERT_TRUE(store_->Close().ok());
  std::vector<uint64_t> counts;
  ASSERT_TRUE(EngineBucketFill(temp_.Join("store"), &counts).ok());
  EXPECT_EQ(counts.size(), 16u);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), uint64_t{0}), kRecords);
  EXPECT_FALSE(EngineBucketFill(temp_.Join("missing"), &counts).ok());
}

}  // namespace
}  // namespace engine_race::harness
