// The disk space of mapped staging: it grows as places fill, and a busy bucket asks for it seldom.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/faults/staging_test_util.h"
#include "test/watched_thread.h"

namespace engine_race::test {
namespace {

constexpr uint64_t kFirstStep = 8192;

// A stretch of a staging file, by offset and size.
using Stretch = std::pair<uint64_t, uint64_t>;

// Keeps the reservations of staged values and keys, and refuses those that a test chooses.
class ReservationWatch : public SystemCallHook {
 public:
  // Returns an errno, or 0 for a reservation that is made.
  using AnswerFn = std::function<int(const Stretch& of_values)>;
  // Called before each write to a file of values.
  using OnWriteFn = std::function<void()>;

  long OnCall(SystemCall* call) override {
    if (call->kind == CallKind::kPwrite && on_write && PathOfFd(call->fd).ends_with("/value_00")) {
      on_write();
    }
    if (call->kind != CallKind::kFallocate || call->flags != 0) {
      const long result = call->Proceed();
      PretendMapped(*call, result);
      return result;
    }
    const Stretch stretch(call->offset, call->length);
    const bool is_values = IsOn(*call, CallKind::kFallocate, format::kStagingValuesName);
    const bool is_keys = IsOn(*call, CallKind::kFallocate, format::kStagingKeysName);
    if (!is_values && !is_keys) return call->Proceed();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++call_count_;
      (is_values ? values_ : keys_).push_back(stretch);
    }
    int error = is_values && answer ? answer(stretch) : 0;
    if (is_keys && refused_keys > 0) {
      --refused_keys;
      error = ENOSPC;
    }
    return error != 0 ? Refuse(error) : call->Proceed();
  }

  // Those since the last call of it.
  std::vector<Stretch> TakeValues() { return Take(&values_); }
  std::vector<Stretch> TakeKeys() { return Take(&keys_); }
  uint64_t call_count() const { return call_count_; }

  AnswerFn answer;
  OnWriteFn on_write;
  // How many reservations of keys are refused.
  int refused_keys = 0;

 private:
  std::vector<Stretch> Take(std::vector<Stretch>* from) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(*from, {});
  }

  std::mutex mutex_;
  std::vector<Stretch> values_;
  std::vector<Stretch> keys_;
  uint64_t call_count_ = 0;
};

class StagingSpaceTest : public ::testing::Test {
 protected:
  void Open() {
    log_.reset();
    log_ = OpenLog(OptionsOf(StagingMode::kAuto), dir_.path());
    ASSERT_NE(log_, nullptr);
    ASSERT_TRUE(log_->staging_mapped());
    group_ = log_->geometry().values_per_group();
  }
  // In bucket 0, one after another.
  Status AppendNext() {
    Status appended = AppendTo(log_.get(), next_key_);
    if (appended.ok()) keys_.push_back(next_key_);
    ++next_key_;
    return appended;
  }
  void AppendMany(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(AppendNext().ok());
  }
  Stretch ValuePlace(uint32_t place) const {
    return {log_->geometry().ValuePlaceOffset(0, place), log_->geometry().value_group_bytes};
  }
  void ExpectAllAfterReopening() {
    log_.reset();
    ASSERT_NO_FATAL_FAILURE(ExpectReopens(dir_.path(), keys_));
  }

  const TempDir dir_;
  ReservationWatch watch_;
  const ScopedHook scope_{&watch_};
  std::unique_ptr<BucketLog> log_;
  uint64_t group_ = 0;
  uint64_t next_key_ = 0;
  std::vector<uint64_t> keys_;
};

TEST_F(StagingSpaceTest, TheFirstGroupReservesInStepsThatDouble) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t group_bytes = group_ * kValueBytes;
  for (uint64_t end = kFirstStep, begin = 0; begin < group_bytes; begin = end, end *= 2) {
    ASSERT_NO_FATAL_FAILURE(AppendMany(1));
    EXPECT_EQ(watch_.TakeValues(), (std::vector<Stretch>{{begin, end - begin}}));
    ASSERT_NO_FATAL_FAILURE(AppendMany((end - begin) / kValueBytes - 1));
    EXPECT_TRUE(watch_.TakeValues().empty()) << "the space was there";
  }
  EXPECT_EQ(watch_.TakeKeys(), (std::vector<Stretch>{{0, log_->geometry().key_group_bytes}}));
}

TEST_F(StagingSpaceTest, ABucketWithOneRecordReservesForItselfAlone) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const uint64_t in_last_bucket = ~uint64_t{0};
  ASSERT_TRUE(AppendTo(log_.get(), in_last_bucket).ok());
  const Geometry& geometry = log_->geometry();
  EXPECT_EQ(watch_.TakeValues(),
            (std::vector<Stretch>{{geometry.ValuePlaceOffset(3, 0), kFirstStep}}));
  EXPECT_EQ(watch_.TakeKeys(),
            (std::vector<Stretch>{{geometry.KeyPlaceOffset(3, 0), geometry.key_group_bytes}}));
}

// Its groups are written before the next one begins: all take the first place.
TEST_F(StagingSpaceTest, ABusyBucketAsksForNothingMore) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_));
  const uint64_t first_count = watch_.call_count();
  ASSERT_NO_FATAL_FAILURE(AppendMany(9 * group_));
  EXPECT_EQ(watch_.call_count(), first_count);
  // An opening does not know what the space of a place is.
  ASSERT_NO_FATAL_FAILURE(Open());
  static_cast<void>(watch_.TakeValues());
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_));
  EXPECT_EQ(watch_.TakeValues(), (std::vector<Stretch>{ValuePlace(0)}))
      << "the bucket has filled a place before";
}

// While the first place is written the next records take another one.
TEST_F(StagingSpaceTest, APlaceBesideAnotherIsReservedAtOnce) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_ - 1));
  static_cast<void>(watch_.TakeValues());
  bool is_first = true;
  watch_.on_write = [&] {
    if (!std::exchange(is_first, false)) return;
    std::thread([this] { EXPECT_TRUE(AppendNext().ok()); }).join();
  };
  // The hook's record is behind this one, whose group it writes.
  const uint64_t key = next_key_++;
  keys_.push_back(key);
  ASSERT_TRUE(AppendTo(log_.get(), key).ok());
  EXPECT_EQ(watch_.TakeValues(), (std::vector<Stretch>{ValuePlace(1)}));
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_ - 1));
  EXPECT_TRUE(watch_.TakeValues().empty());
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

TEST_F(StagingSpaceTest, ARefusedPlaceWaitsForALowerOne) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_ - 1));
  watch_.answer = [this](const Stretch& stretch) { return stretch == ValuePlace(1) ? ENOSPC : 0; };
  static_cast<void>(watch_.TakeValues());
  const uint64_t key = next_key_++;
  keys_.push_back(key);
  Status appended;
  std::unique_ptr<WatchedThread> other;
  watch_.on_write = [&] {
    if (other != nullptr) return;
    other = std::make_unique<WatchedThread>([&] { appended = AppendNext(); });
    EXPECT_TRUE(other->AwaitSleep());
  };
  ASSERT_TRUE(AppendTo(log_.get(), key).ok());
  ASSERT_NE(other, nullptr);
  other->Join();
  EXPECT_TRUE(appended.ok()) << appended.ToString();
  EXPECT_EQ(watch_.TakeValues(), (std::vector<Stretch>{ValuePlace(1)}));
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

// Whichever step is refused.
TEST_F(StagingSpaceTest, ARefusedStepIsFullAndAppendsNothing) {
  for (uint64_t refused_end = kFirstStep;; refused_end *= 2) {
    ASSERT_NO_FATAL_FAILURE(Open());
    const uint32_t bucket = static_cast<uint32_t>(std::countr_zero(refused_end / kFirstStep));
    if (refused_end > group_ * kValueBytes) return;
    const uint64_t first_key = uint64_t{bucket} << 62;
    const uint64_t begin = log_->geometry().ValuePlaceOffset(bucket, 0);
    uint64_t left = 3;
    watch_.answer = [&](const Stretch& stretch) {
      return stretch.first + stretch.second == begin + refused_end && left-- > 0 ? ENOSPC : 0;
    };
    uint64_t count = 0;
    uint64_t full_count = 0;
    while (count < 2 * group_) {
      const Status appended = AppendTo(log_.get(), first_key + count);
      if (appended.ok()) ++count;
      if (!appended.ok()) {
        ASSERT_EQ(appended.code(), Code::kFull) << appended.ToString();
        ++full_count;
      }
      ASSERT_EQ(log_->RecordCount(bucket), count);
    }
    EXPECT_EQ(full_count, 3u);
    log_.reset();
    log_ = OpenLog(OptionsOf(StagingMode::kAuto), dir_.path());
    ASSERT_EQ(log_->RecordCount(bucket), count);
    for (uint64_t slot = 0; slot < count; ++slot) {
      ASSERT_EQ(ReadSlot(*log_, bucket, slot), ValueOf(first_key + slot, 1));
    }
  }
}

TEST_F(StagingSpaceTest, ARefusedPlaceOfKeysIsFullAndAppendsNothing) {
  ASSERT_NO_FATAL_FAILURE(Open());
  watch_.refused_keys = 2;
  EXPECT_EQ(AppendNext().code(), Code::kFull);
  EXPECT_EQ(AppendNext().code(), Code::kFull);
  EXPECT_EQ(log_->RecordCount(0), 0u);
  ASSERT_NO_FATAL_FAILURE(AppendMany(3));
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

// A batch that has the lower places itself waits in vain.
TEST_F(StagingSpaceTest, ABatchThatFindsNoSpaceForItsPlacesIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Open());
  ASSERT_NO_FATAL_FAILURE(AppendMany(group_ + 1));
  watch_.answer = [this](const Stretch& stretch) { return stretch == ValuePlace(2) ? ENOSPC : 0; };
  const auto write = [&](uint64_t count) {
    WriteBatch batch;
    for (uint64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(batch.Put(KeyOf(next_key_ + i), ValueOf(next_key_ + i, 1)).ok());
    }
    return log_->Write(batch);
  };
  EXPECT_EQ(write(3 * group_).code(), Code::kFull);
  EXPECT_EQ(log_->RecordCount(0), keys_.size());
  // Two places are enough for this one.
  ASSERT_TRUE(write(group_).ok());
  for (uint64_t i = 0; i < group_; ++i) keys_.push_back(next_key_++);
  watch_.answer = nullptr;
  ASSERT_TRUE(write(3 * group_).ok());
  for (uint64_t i = 0; i < 3 * group_; ++i) keys_.push_back(next_key_++);
  ASSERT_NO_FATAL_FAILURE(ExpectAllAfterReopening());
}

}  // namespace
}  // namespace engine_race::test
