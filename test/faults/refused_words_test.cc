// Two faults at once: a system call fails, and there is no memory to say so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine_race/base/guarded.h"
#include "test/faults/system_calls.h"
#include "test/index/refused_memory.h"
#include "test/log/log_test_util.h"

namespace engine_race::test {
namespace {

// Once armed, fails the first call of a kind on files whose name begins with a prefix.
class FailOnce : public SystemCallHook {
 public:
  FailOnce(CallKind kind, std::string prefix) : kind_(kind), prefix_(std::move(prefix)) {}

  long OnCall(SystemCall* call) override {
    if (call->kind != kind_ || !armed_ || !IsOfOurs(call->fd)) return call->Proceed();
    armed_ = false;
    failed_ = true;
    errno = EIO;
    return -1;
  }
  void Arm() { armed_ = true; }
  void Disarm() { armed_ = false; }
  bool failed() const { return failed_; }

 private:
  // Asks for no memory: that is refused here.
  bool IsOfOurs(int fd) const {
    std::array<char, 32> link;
    std::array<char, 4096> path;
    std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
    const ssize_t size = ::readlink(link.data(), path.data(), path.size());
    if (size <= 0) return false;
    const std::string_view whole(path.data(), static_cast<size_t>(size));
    return whole.substr(whole.rfind('/') + 1).starts_with(prefix_);
  }

  const CallKind kind_;
  const std::string prefix_;
  std::atomic<bool> armed_{false};
  std::atomic<bool> failed_{false};
};

Options OptionsFor(SyncMode mode) {
  Options options = TinyLogOptions();
  options.bucket_count = 1;
  options.file_count = 1;
  options.sync_mode = mode;
  options.journal_bytes = kMinJournalBytes;
  return options;
}

// Refuses the n-th request for memory of `call`, for every n that there is, each time on a store of
// its own with five records: one full group of values and a record more.
class RefusedWordsTest : public testing::Test {
 protected:
  using Body = std::function<Status(BucketLog* log)>;
  using Judge = std::function<void(BucketLog* log, const Status& status, bool failed)>;

  static Status Append(BucketLog* log, uint64_t key) {
    return log->Append(key, ValueOf(key, 1).data());
  }

  void ForEveryRequest(SyncMode mode, CallKind kind, const std::string& prefix, uint64_t records,
                       const Body& body, const Judge& judge) {
    uint64_t failed_count = 0;
    bool refused = true;
    for (uint64_t n = 0; refused && !HasFatalFailure(); ++n) {
      SCOPED_TRACE("request " + std::to_string(n));
      const TempDir dir(FastParent());
      FailOnce hook(kind, prefix);
      const ScopedHook scoped(&hook);
      auto log = OpenLog(OptionsFor(mode), dir.path());
      ASSERT_NE(log, nullptr);
      for (uint64_t key = 0; key < records; ++key) ASSERT_TRUE(Append(log.get(), key).ok());
      Status status;
      hook.Arm();
      {
        const RefuseMemory refuse(n);
        status = Guarded([&] { return body(log.get()); });
        refused = refuse.refused();
      }
      hook.Disarm();
      if (hook.failed()) ++failed_count;
      judge(log.get(), status, hook.failed());
      log.reset();
      // All that was acknowledged is there.
      log = OpenLog(OptionsFor(mode), dir.path());
      ASSERT_NE(log, nullptr);
      for (uint64_t key = 0; key < records; ++key) {
        EXPECT_EQ(ReadSlot(*log, 0, key), ValueOf(key, 1));
      }
    }
    EXPECT_GT(failed_count, 2);
  }
};

void ExpectNoSuccessAfterFailedFlush(BucketLog* log, const Status& status, bool failed) {
  EXPECT_EQ(log->Sync().ok(), !failed);
  EXPECT_EQ(log->Append(100, ValueOf(100, 1).data()).ok(), !failed);
  if (failed) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(log->Sync().code(), Code::kIOError);
  }
}

TEST_F(RefusedWordsTest, AFailedFlushOfALogIsNotForgotten) {
  for (const char* prefix : {"key_", "value_", "staging_counts"}) {
    ForEveryRequest(
        SyncMode::kNone, CallKind::kFdatasync, prefix, 5,
        [](BucketLog* log) { return log->Sync(); }, ExpectNoSuccessAfterFailedFlush);
  }
}

TEST_F(RefusedWordsTest, AFailedFlushOfTheJournalIsNotForgotten) {
  ForEveryRequest(
      SyncMode::kGroup, CallKind::kFdatasync, "staging_journal", 5,
      [](BucketLog* log) { return Append(log, 5); }, ExpectNoSuccessAfterFailedFlush);
}

// A group whose write had no end would be waited for for ever.
TEST_F(RefusedWordsTest, AFailedWriteOfAGroupEnds) {
  for (const uint64_t records : {3, 5}) {
    ForEveryRequest(
        SyncMode::kNone, CallKind::kPwrite, "value_", records,
        // The fourth record fills a group. Sync writes what there is of the second one.
        [records](BucketLog* log) { return records == 3 ? Append(log, 3) : log->Sync(); },
        [records](BucketLog* log, const Status& status, bool failed) {
          if (failed) {
            // The record that filled the group is staged, so its append is Ok.
            EXPECT_EQ(status.ok(), records == 3);
          }
          if (records == 3 && status.ok()) {
            EXPECT_EQ(ReadSlot(*log, 0, 3), ValueOf(3, 1));
          }
          // Sync returns: it succeeds, or says that writing has ended.
          const Status synced = log->Sync();
          EXPECT_TRUE(synced.ok() || synced.code() == Code::kIOError) << synced.ToString();
        });
  }
}

}  // namespace
}  // namespace engine_race::test
