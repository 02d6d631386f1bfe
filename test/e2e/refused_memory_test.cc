// Whichever request for memory is refused, a call answers, and the store goes on.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "test/e2e/reclaim_fixture.h"
#include "test/index/refused_memory.h"

namespace engine_race::test {
namespace {

class RefusedMemoryTest : public ReclaimTest {
 protected:
  // Makes the call again and again, until none of its requests is refused.
  static void ExpectAnswers(Code wanted, const std::function<Status()>& call) {
    bool refused = true;
    for (uint64_t n = 0; refused; ++n) {
      Status status;
      {
        const RefuseMemory refuse(n);
        status = call();
        refused = refuse.refused();
      }
      ASSERT_TRUE(status.code() == wanted || (refused && status.code() == Code::kOutOfMemory))
          << "request " << n << ": " << status.ToString();
    }
  }
};

TEST_F(RefusedMemoryTest, CallsThatCannotSucceedAnswerWithoutTheirWords) {
  Open();
  const std::string value(store_->value_bytes(), 'v');
  const std::string long_key(40, 'k');
  std::string read;
  ExpectAnswers(Code::kInvalidArgument, [&] { return store_->Write(long_key, value); });
  ExpectAnswers(Code::kInvalidArgument, [&] { return store_->Write(KeyOf(1), "short"); });
  ExpectAnswers(Code::kInvalidArgument, [&] { return store_->Delete(long_key); });
  ExpectAnswers(Code::kInvalidArgument, [&] { return store_->Read(long_key, &read); });
  ExpectAnswers(Code::kInvalidArgument, [&] { return store_->GetSnapshot(nullptr); });
}

TEST_F(RefusedMemoryTest, WritesToAFullBucketAnswer) {
  options_.reclaim = Reclaim::kOff;
  OpenOneRegion(2);
  WriteAll(0, 2 * kRowRecords, 1);
  const std::string key = KeyOf(SpreadKey(1));
  const std::string value = ValueOf(SpreadKey(1), 2);
  WriteBatch batch;
  ASSERT_TRUE(batch.Put(key, value).ok());
  ASSERT_TRUE(batch.Delete(KeyOf(SpreadKey(2))).ok());
  ExpectAnswers(Code::kFull, [&] { return store_->Write(key, value); });
  ExpectAnswers(Code::kFull, [&] { return store_->Delete(key); });
  ExpectAnswers(Code::kFull, [&] { return store_->Write(batch); });
  ExpectHeldAfterReopening();
}

// The writer cleans the bucket itself.
TEST_F(RefusedMemoryTest, AWriteThatMakesSpaceLeavesTheStoreWritable) {
  OpenOneRegion(4);
  WriteAll(0, 2 * kRowRecords, 1);
  for (uint64_t n = 0; n < 4000; ++n) {
    const uint64_t key = SpreadKey(n % (2 * kRowRecords));
    const std::string value = ValueOf(key, n + 2);
    Status status;
    {
      const RefuseMemory refuse(n % 61);
      status = store_->Write(KeyBytes(key).view(), value);
    }
    if (status.ok()) {
      held_[key] = n + 2;
    } else {
      ASSERT_EQ(status.code(), Code::kOutOfMemory) << status.ToString();
    }
  }
  for (uint64_t version = 10000; version < 10008; ++version) {
    ASSERT_NO_FATAL_FAILURE(WriteAll(0, 2 * kRowRecords, version));
  }
  ExpectHeldAfterReopening();
}

class RefusedOpeningTest : public RefusedMemoryTest {
 protected:
  void SetUp() override {
    OpenOneRegion(8);
    for (uint64_t version = 1; version <= 3; ++version) {
      ASSERT_NO_FATAL_FAILURE(WriteAll(0, 3 * kRowRecords, version));
    }
    Compact();
    store_.reset();
    ASSERT_TRUE(HasRowFile());
  }
  // Opens the store, reads and ranges, and closes it.
  Status OpenAndRead() {
    ENGINE_RACE_RETURN_IF_ERROR(Store::Open(options_, dir_.path(), &store_));
    std::string value;
    Status answered = store_->Read(KeyOf(SpreadKey(0)), &value);
    uint64_t count = 0;
    const auto visit = [&count](std::string_view, std::string_view) {
      ++count;
      return true;
    };
    if (answered.ok()) answered = store_->Range("", "", visit);
    if (answered.ok()) {
      EXPECT_EQ(count, held_.size());
      answered = store_->Sync();
    }
    store_.reset();
    return answered;
  }
};

TEST_F(RefusedOpeningTest, AnOpeningWithoutMemoryAnswers) {
  bool refused = true;
  for (uint64_t n = 0; refused; n += 1 + n / 16) {
    SCOPED_TRACE("request " + std::to_string(n));
    const RefuseMemory refuse(n);
    const Status opened = OpenAndRead();
    refused = refuse.refused();
    ASSERT_TRUE(opened.ok() || (refused && opened.code() == Code::kOutOfMemory))
        << opened.ToString();
  }
  ExpectHeldAfterReopening();
}

// A thread that reclaims is needed, and one that keeps the index is not.
TEST_F(RefusedOpeningTest, AnOpeningWithoutThreadsAnswers) {
  {
    const RefuseThreads refuse;
    EXPECT_EQ(OpenAndRead().code(), Code::kOutOfMemory);
    options_.reclaim = Reclaim::kOff;
    ASSERT_TRUE(Store::Open(options_, dir_.path(), &store_).ok());
    std::string value;
    EXPECT_TRUE(store_->Read(KeyOf(SpreadKey(0)), &value).ok());
    EXPECT_EQ(value, ValueOf(SpreadKey(0), held_[SpreadKey(0)]));
    EXPECT_TRUE(store_->Sync().ok());
    store_.reset();
  }
  options_.reclaim = Reclaim::kBackground;
  ExpectHeldAfterReopening();
}

}  // namespace
}  // namespace engine_race::test
