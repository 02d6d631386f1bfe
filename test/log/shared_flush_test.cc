// Several threads flush the same small files. The kernel tells one of them alone that pages could
// not be written, and marks these pages clean. So no other flush of the store may be believed then.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "test/faults/call_watch.h"
#include "test/log/row_mover_fixture.h"

namespace engine_race::test {
namespace {

class SharedFlushTest : public RowMoverTest {
 protected:
  // Runs `call`. Before its first system call of that kind on a file with that name, another thread
  // flushes the rows, and is told of a failure.
  void FailFlushOfAnotherThread(CallKind kind, const std::string& name,
                                const std::function<void()>& call) {
    bool has_failed = false;
    CallWatch watch([&](SystemCall* made) {
      if (std::this_thread::get_id() == other_) {
        return made->kind == CallKind::kFdatasync ? Refuse(EIO) : made->Proceed();
      }
      if (made->kind == kind && PathOf(*made).ends_with(name) && !std::exchange(has_failed, true)) {
        std::thread other([this] {
          other_ = std::this_thread::get_id();
          EXPECT_EQ(log_->FlushRows().code(), Code::kIOError);
        });
        other.join();
      }
      return made->Proceed();
    });
    const ScopedHook hook(&watch);
    call();
    EXPECT_TRUE(has_failed);
  }

  std::thread::id other_;
};

TEST_F(SharedFlushTest, ASyncFailsAfterAFailureOfAnotherThread) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  ASSERT_TRUE(log_->mover().Settle().ok());
  const uint64_t synced = log_->SyncedWatermark(0);
  ASSERT_TRUE(log_->Append(1, ValueOf(1, 2).data()).ok());
  FailFlushOfAnotherThread(CallKind::kFdatasync, "key_00",
                           [&] { EXPECT_EQ(log_->Sync().code(), Code::kIOError); });
  EXPECT_EQ(log_->SyncedWatermark(0), synced);
}

TEST_F(SharedFlushTest, NothingIsFreedAfterAFailureOfAnotherThread) {
  ASSERT_NO_FATAL_FAILURE(MoveFirstRow());
  FailFlushOfAnotherThread(CallKind::kPwrite, format::kRowsName,
                           [&] { EXPECT_EQ(log_->mover().Settle().code(), Code::kIOError); });
  EXPECT_EQ(log_->mover().unreleased_bytes(), 0u);
  log_->mover().Release();
  EXPECT_EQ(log_->mover().given_back_bytes(), 0u);
}

}  // namespace
}  // namespace engine_race::test
