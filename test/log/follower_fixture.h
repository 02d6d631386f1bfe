// A log that is written, another one that follows it, and what comes between the follower and the
// files.
#ifndef TEST_LOG_FOLLOWER_FIXTURE_H_
#define TEST_LOG_FOLLOWER_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine_race/log/follower.h"
#include "test/faults/system_calls.h"
#include "test/log/log_test_util.h"
#include "test/log/row_test_util.h"

namespace engine_race::test {

// Changes what the reads of a file bring, while it is on.
class ChangedReads : public SystemCallHook {
 public:
  // `number`: how many reads of the file came before.
  using Fn = std::function<void(char* bytes, size_t size_bytes, off_t offset, uint64_t number)>;
  ChangedReads(std::string name, Fn change) : name_(std::move(name)), change_(std::move(change)) {}

  long OnCall(SystemCall* call) override {
    const long read = call->Proceed();
    if (call->kind != CallKind::kPread || read <= 0 || !PathOf(*call).ends_with(name_)) return read;
    change_(static_cast<char*>(call->buffer), static_cast<size_t>(read), call->offset, count++);
    return read;
  }

  uint64_t count = 0;

 private:
  const std::string name_;
  const Fn change_;
};

// Notes how far the bucket was when the log detached the listener from it.
class DetachListener : public AppendListener {
 public:
  explicit DetachListener(const BucketLog* log) : log_(*log) {}
  Status Prepare(uint32_t) override {
    return append_count < refused_from ? Status::Ok() : Status::OutOfMemory("refused by the test");
  }
  void OnAppend(uint32_t, const KeyRecord&) noexcept override { ++append_count; }
  void OnReuse(uint32_t) noexcept override { ++reuse_hint_count; }
  void OnDetach(uint32_t bucket) noexcept override {
    ++detach_count;
    reuse_count = log_.ReuseCount(bucket);
    record_count = log_.RecordCount(bucket);
  }
  uint64_t refused_from = ~uint64_t{0};
  uint64_t append_count = 0;
  uint64_t reuse_hint_count = 0;
  uint64_t detach_count = 0;
  uint64_t reuse_count = 0;
  uint64_t record_count = 0;

 private:
  const BucketLog& log_;
};

class FollowerTest : public ::testing::Test {
 protected:
  void OpenWriter() {
    writer_.reset();
    writer_ = OpenLog(options_, dir_.path());
    ASSERT_NE(writer_, nullptr);
  }
  // Opens another writer beside the first read, and appends 3 records.
  ChangedReads::Fn ComingWriter() {
    return [this](char*, size_t, off_t, uint64_t number) {
      if (number != 0) return;
      ASSERT_NO_FATAL_FAILURE(OpenWriter());
      ASSERT_NO_FATAL_FAILURE(Append(3));
    };
  }
  void Append(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_TRUE(writer_->Append(next_key_, ValueOf(next_key_, 1).data()).ok());
      ++next_key_;
    }
  }
  void Follow() {
    Options options;
    options.follow = options.read_only = true;
    options.value_bytes = 0;
    follower_ = OpenLog(options, dir_.path());
    ASSERT_NE(follower_, nullptr);
  }
  // A store of `count` records, and a listener of the follower that has cut bucket 0.
  void FollowAndCut(uint64_t count) {
    ASSERT_NO_FATAL_FAILURE(OpenWriter());
    ASSERT_NO_FATAL_FAILURE(Append(count));
    ASSERT_NO_FATAL_FAILURE(Follow());
    listener_ = std::make_unique<DetachListener>(follower_.get());
    ASSERT_NO_FATAL_FAILURE(Cut());
  }
  void Cut() {
    BucketCut cut;
    ASSERT_TRUE(follower_->reader().CutBucket(0, /*first_sequence=*/0, listener_.get(), &cut).ok());
  }

  Status Refresh() { return follower_->Refresh(&reset_); }
  // Expects bucket 0 of the follower to have so many keys, each in its slot.
  void ExpectAll(uint64_t count) {
    EXPECT_EQ(follower_->RecordCount(0), count);
    // Records that were moved may still have two slots.
    std::set<uint64_t> keys;
    for (const KeyRecord& record : RecordsOf(follower_.get(), 0)) keys.insert(record.key);
    EXPECT_EQ(keys.size(), count);
  }
  void MoveRow(uint32_t row) {
    uint32_t moved_row = 0;
    ASSERT_NO_FATAL_FAILURE(test::MoveRow(writer_.get(), /*bucket=*/0, row, &moved_row));
  }
  void GiveUpRow(uint32_t row) {
    const uint32_t row_records = writer_->geometry().row_records();
    ASSERT_NO_FATAL_FAILURE(
        GiveUpSlots(writer_.get(), /*bucket=*/0, row, SlotBits::First(row_records)));
  }
  // Whether the follower says that the slot may have been used again since it had `reuse_count`.
  bool IsReused(uint64_t slot, uint64_t reuse_count) {
    failure_ = Status::Ok();
    return follower_->IsReused(0, {&slot, 1}, reuse_count, &failure_);
  }

  const TempDir dir_;
  std::vector<uint32_t> reset_;
  Status failure_;
  Options options_ = TinyLogOptions();
  uint64_t next_key_ = 0;  // all in bucket 0
  std::unique_ptr<BucketLog> writer_;
  std::unique_ptr<BucketLog> follower_;
  std::unique_ptr<DetachListener> listener_;
};

}  // namespace engine_race::test

#endif  // TEST_LOG_FOLLOWER_FIXTURE_H_
